package scaffold

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// A clone has services like those that are made: their go.mod require the same, so nothing
// has to be resolved, and nothing downloaded that the clone has. The one with a database has
// all modules that a service can import.
const (
	example             = "examples/hello"
	exampleWithDatabase = "examples/notes"
)

// clone is a clone of Busbar, from which a service takes the modules where no version of
// them is published.
type clone struct {
	dir     string // without symbolic links
	mod     *modfile.File
	sums    []byte
	modules []part // that a service can import
}

// part is a module of a clone.
type part struct{ Path, Dir string }

// Guess finds a clone that a directory is in or beside, or that a program was built in;
// empty for none.
func Guess(dir, program string) string {
	tried := []string{dir, filepath.Join(dir, "busbar"), filepath.Join(filepath.Dir(dir), "busbar")}
	for _, from := range []string{dir, program} {
		for at := from; filepath.Dir(at) != at; at = filepath.Dir(at) {
			tried = append(tried, filepath.Dir(at))
		}
	}
	for _, at := range tried {
		if _, err := open(at, example); err == nil {
			return at
		}
	}
	return ""
}

// open reads a clone for a service that requires what an example in it does.
func open(dir, like string) (*clone, error) {
	c, err := read(dir, like)
	if err != nil {
		return nil, fmt.Errorf("%s is no clone of Busbar: %w", dir, err)
	}
	return c, nil
}

func read(dir, like string) (*clone, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	c := &clone{dir: dir}
	if c.mod, err = goModOf(dir, like); err != nil {
		return nil, err
	}
	if c.sums, err = os.ReadFile(filepath.Join(dir, like, "go.sum")); err != nil {
		return nil, err
	}
	all, err := goModOf(dir, exampleWithDatabase)
	if err != nil {
		return nil, err
	}
	for _, r := range all.Replace {
		c.modules = append(c.modules, part{r.Old.Path, path.Join(exampleWithDatabase, r.New.Path)})
	}
	return c, nil
}

func goModOf(dir, example string) (*modfile.File, error) {
	name, want := filepath.Join(dir, example, "go.mod"), "github.com/busbar-mcp/busbar/"+example
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	if mod.Module == nil || mod.Module.Mod.Path != want || mod.Go == nil {
		return nil, fmt.Errorf("%s is of another module than %s", name, want)
	}
	return mod, nil
}

// goMod is the example's go.mod for a module whose way to the clone is another.
func (c *clone) goMod(module, toClone string) ([]byte, error) {
	for _, r := range c.mod.Require {
		if err := apart(module, r.Mod.Path); err != nil {
			return nil, err
		}
	}
	if err := c.mod.AddModuleStmt(module); err != nil {
		return nil, err
	}
	for _, m := range c.modules {
		if err := c.mod.AddReplace(m.Path, "", path.Join(toClone, m.Dir), ""); err != nil {
			return nil, err
		}
	}
	c.mod.SortBlocks()
	return c.mod.Format()
}

// outside refuses a directory in the clone.
func (c *clone) outside(dir string, o Options) error {
	if rel, err := filepath.Rel(c.dir, dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is inside the clone of Busbar, whose go.work does not know it; write it beside: --dir %s",
			o.Dir, filepath.Join(filepath.Dir(c.dir), o.Name))
	}
	return nil
}

// wayFrom is the way to the clone from a directory without symbolic links.
func (c *clone) wayFrom(dir string) string {
	way, err := filepath.Rel(dir, c.dir)
	if err != nil {
		way = c.dir // on another drive
	}
	return filepath.ToSlash(way)
}
