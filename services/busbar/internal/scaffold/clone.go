package scaffold

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// examples is the module of a clone with services like the one that is written. Its go.mod and
// go.sum are whole and name every module of Busbar that a service can import, so the written
// service builds without resolving or downloading anything.
const examples = "examples"

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
		if _, err := open(at); err == nil {
			return at
		}
	}
	return ""
}

// open reads a clone.
func open(dir string) (*clone, error) {
	c, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("%s is not a clone of Busbar: %w", dir, err)
	}
	return c, nil
}

func read(dir string) (*clone, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	c := &clone{dir: dir}
	name, want := filepath.Join(dir, examples, "go.mod"), "github.com/busbar-mcp/busbar/"+examples
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if c.mod, err = modfile.Parse(name, text, nil); err != nil {
		return nil, err
	}
	if c.mod.Module == nil || c.mod.Module.Mod.Path != want || c.mod.Go == nil {
		return nil, fmt.Errorf("%s does not declare the module %s", name, want)
	}
	if c.sums, err = os.ReadFile(filepath.Join(dir, examples, "go.sum")); err != nil {
		return nil, err
	}
	for _, r := range c.mod.Replace {
		c.modules = append(c.modules, part{r.Old.Path, path.Join(examples, r.New.Path)})
	}
	return c, nil
}

// goMod is the go.mod of the examples for a module whose way to the clone is another.
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
