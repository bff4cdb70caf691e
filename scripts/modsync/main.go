// Command modsync keeps the go.mod files of the workspace in step, which Go
// leaves to us: a workspace builds even where they are wrong.
//
//	go run scripts/modsync/main.go check   # say what differs, and fail
//	go run scripts/modsync/main.go fix     # repair it
//
// Every module has the go line of go.work; requires the modules of ours it
// imports, at v0.0.0; replaces those and all they need by their directories;
// and requires a third-party module at the one version all others have.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const unbound = "v0.0.0"

// outside are the modules outside of the workspace, whose dependencies are those of
// programs that we run and not of what we ship, with those of them that count: what a
// tool generates must fit the library it is compiled with, and what Busbar is measured
// beside must be of the release that Busbar has.
var outside = map[string][]string{
	"tools":            {"google.golang.org/protobuf"},
	"test/bench/peers": {"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/modelcontextprotocol/go-sdk"},
}

// counts reports whether the module's version of another has to be that of the workspace.
func (m *module) counts(path string) bool {
	some, is := outside[m.dir]
	return !is || slices.Contains(some, path)
}

type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// version at which the module requires another; empty if it does not.
func (m *goMod) version(path string) string {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

// replacement is the directory that stands for another module, or empty.
func (m *goMod) replacement(path string) string {
	for _, r := range m.Replace {
		if r.Old.Path == path {
			return r.New.Path
		}
	}
	return ""
}

type module struct {
	goMod
	dir string
	// imports are the modules of ours whose packages it imports, in tests too.
	imports map[string]bool
}

// difference is something out of step, and the `go mod edit` flag that mends it.
type difference struct {
	dir, what, edit string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modsync:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || args[0] != "check" && args[0] != "fix" {
		return errors.New("usage: go run scripts/modsync/main.go check|fix")
	}
	goLine, modules, err := load()
	if err != nil {
		return err
	}
	found, err := compare(goLine, modules)
	if err != nil {
		return err
	}
	for _, d := range found {
		fmt.Printf("%s/go.mod: %s\n", d.dir, d.what)
		if args[0] == "fix" {
			if _, err := command(d.dir, "go", "mod", "edit", d.edit); err != nil {
				return err
			}
		}
	}
	if args[0] == "check" && len(found) > 0 {
		return errors.New("run make tidy")
	}
	return nil
}

// load reads the workspace: its go line and its modules, by path.
func load() (goLine string, modules map[string]*module, err error) {
	workFile, err := command(".", "go", "env", "GOWORK")
	if err != nil {
		return "", nil, err
	}
	root := filepath.Dir(strings.TrimSpace(string(workFile)))
	if err := os.Chdir(root); err != nil {
		return "", nil, err
	}
	var work struct {
		Go  string
		Use []struct{ DiskPath string }
	}
	if err := readJSON(&work, ".", "go", "work", "edit", "-json"); err != nil {
		return "", nil, err
	}
	modules = map[string]*module{}
	dirs := slices.Sorted(maps.Keys(outside))
	for _, u := range work.Use {
		dirs = append(dirs, filepath.Clean(u.DiskPath))
	}
	for _, dir := range dirs {
		m := &module{dir: dir}
		if err := readJSON(&m.goMod, dir, "go", "mod", "edit", "-json"); err != nil {
			return "", nil, err
		}
		modules[m.Module.Path] = m
	}
	for _, m := range modules {
		if m.imports, err = siblings(m, modules); err != nil {
			return "", nil, err
		}
	}
	return work.Go, modules, nil
}

// siblings finds the modules of ours that a module's packages import. Files
// that do not parse count as far as they do.
func siblings(m *module, modules map[string]*module) (map[string]bool, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if path != m.dir && (nested == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, _ := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if file == nil {
			return nil
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if owner := ownerOf(imported, modules); owner != "" && owner != m.Module.Path {
				found[owner] = true
			}
		}
		return nil
	})
	return found, err
}

// ownerOf is the module of ours that holds a package, or empty.
func ownerOf(pkg string, modules map[string]*module) string {
	owner := ""
	for path := range modules {
		if (pkg == path || strings.HasPrefix(pkg, path+"/")) && len(path) > len(owner) {
			owner = path
		}
	}
	return owner
}

// needs adds all modules of ours that a module imports, directly or not.
func needs(path string, modules map[string]*module, all map[string]bool) {
	for p := range modules[path].imports {
		if !all[p] {
			all[p] = true
			needs(p, modules, all)
		}
	}
}

func compare(goLine string, modules map[string]*module) ([]difference, error) {
	var found []difference
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		if m.Go != goLine {
			found = append(found, difference{m.dir, fmt.Sprintf("go line is %s, go.work says %s", m.Go, goLine), "-go=" + goLine})
		}
		found = append(found, compareSiblings(m, modules)...)
	}
	third, err := compareThirdParty(modules)
	return append(found, third...), err
}

func compareSiblings(m *module, modules map[string]*module) []difference {
	var found []difference
	all := map[string]bool{}
	needs(m.Module.Path, modules, all)
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		version, replacement := m.version(path), m.replacement(path)
		if version == "" && m.imports[path] || version != "" && version != unbound {
			found = append(found, difference{m.dir, fmt.Sprintf("requires %s at %q, should be %s", path, version, unbound), "-require=" + path + "@" + unbound})
		}
		if !all[path] && version == "" {
			if replacement != "" {
				found = append(found, difference{m.dir, "replaces " + path + ", which it does not need", "-dropreplace=" + path})
			}
			continue
		}
		want, err := filepath.Rel(m.dir, modules[path].dir)
		if err != nil {
			panic(err) // both are relative to the root
		}
		if want = filepath.ToSlash(want); replacement != want {
			found = append(found, difference{m.dir, fmt.Sprintf("replaces %s by %q, should be %s", path, replacement, want), "-replace=" + path + "=" + want})
		}
	}
	return found
}

// compareThirdParty finds modules of others that are required at several
// versions. The workspace uses the highest; so should each module.
func compareThirdParty(modules map[string]*module) ([]difference, error) {
	versions := map[string]map[string]bool{}
	for _, m := range modules {
		for _, r := range m.Require {
			if modules[r.Path] != nil || !m.counts(r.Path) {
				continue
			}
			if versions[r.Path] == nil {
				versions[r.Path] = map[string]bool{}
			}
			versions[r.Path][r.Version] = true
		}
	}
	var found []difference
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		if len(versions[path]) == 1 {
			continue
		}
		out, err := command(".", "go", "list", "-m", "-f", "{{.Version}}", path)
		if err != nil {
			return nil, err
		}
		want := strings.TrimSpace(string(out))
		for _, name := range slices.Sorted(maps.Keys(modules)) {
			m := modules[name]
			if v := m.version(path); v != "" && v != want && m.counts(path) {
				found = append(found, difference{m.dir, fmt.Sprintf("requires %s at %s, the workspace uses %s", path, v, want), "-require=" + path + "@" + want})
			}
		}
	}
	return found, nil
}

func readJSON(v any, dir string, args ...string) error {
	out, err := command(dir, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

func command(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s (in %s): %w", strings.Join(args, " "), dir, err)
	}
	return out, nil
}
