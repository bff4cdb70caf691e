// Package scaffold makes a service to start from: a Go module with a tool, its test, and
// what it takes to ship it.
package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/mod/module"

	"github.com/busbar-mcp/busbar/libs/bus"
)

//go:embed template
var embedded embed.FS

// templates are the templates of every service, and the ones of one kind.
func templates(kind string) (map[string]*template.Template, error) {
	all := map[string]*template.Template{}
	for _, dir := range []string{"template/every", "template/" + kind} {
		err := fs.WalkDir(embedded, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(embedded, name)
			if err != nil {
				return err
			}
			to := strings.TrimSuffix(strings.TrimPrefix(name, dir+"/"), ".tmpl")
			if to == "gitignore" { // git would obey it here
				to = ".gitignore"
			}
			all[to], err = template.New(name).Option("missingkey=error").Parse(string(text))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Options say what is made.
type Options struct {
	Name   string // of the service
	Module string // path of its Go module; example.com/Name if empty
	Dir    string // directory that is made; Name if empty
	// Clone is the directory of a clone of Busbar, from which it takes the modules; empty
	// where it requires a Release of them.
	Clone, Release string
	// Database has it keep what it knows in one, of its own tables.
	Database bool
	// Taken are names that other services have: one more of the same name would be taken
	// for an instance of them.
	Taken []string
}

// Service is a service that can be written.
type Service struct {
	Dir   string // directory that it will be in
	Clone string // directory of the clone, without symbolic links; empty for none
	files map[string][]byte
}

// New checks what is asked for, and writes nothing.
func New(o Options) (*Service, error) {
	if err := bus.ValidName(o.Name); err != nil {
		return nil, err
	}
	if first := o.Name[0] | 0x20; first < 'a' || first > 'z' {
		return nil, fmt.Errorf("name %q: begin with a letter", o.Name)
	}
	if slices.Contains(o.Taken, o.Name) {
		return nil, fmt.Errorf("a service of Busbar has the name %q; choose another one", o.Name)
	}
	o.Module = cmp.Or(o.Module, "example.com/"+o.Name)
	if err := module.CheckPath(o.Module); err != nil {
		return nil, fmt.Errorf("--module: %w", err)
	}
	o.Dir = filepath.Clean(cmp.Or(o.Dir, o.Name))
	place, err := vacant(o)
	if err != nil {
		return nil, err
	}
	s := &Service{Dir: o.Dir, files: map[string][]byte{}}
	values := map[string]any{"Name": o.Name, "Image": strings.ToLower(o.Name), "Owner": owner(o.Name), "Clone": "", "Release": o.Release, "Modules": []part(nil), "Database": o.Database}
	goVersion := goOfRelease
	if o.Clone == "" {
		s.files["go.mod"], err = requires(o)
	} else {
		goVersion, err = s.from(o, place, values)
	}
	if err != nil {
		return nil, err
	}
	minor, _, _ := strings.Cut(strings.TrimPrefix(goVersion, "1."), ".")
	values["Go"] = "1." + minor
	kind := "plain"
	if o.Database {
		kind = "database"
	}
	all, err := templates(kind)
	if err != nil {
		return nil, err
	}
	for name, t := range all {
		var text bytes.Buffer
		if err := t.Execute(&text, values); err != nil {
			return nil, fmt.Errorf("fill in %s: %w", name, err)
		}
		s.files[name] = text.Bytes()
	}
	return s, nil
}

// maxOwner bounds what the names of tables begin with: Postgres takes 63 bytes of a name.
const maxOwner = 40

// owner is the name of a service as part of the names of its tables.
func owner(name string) string {
	return strings.ToLower(strings.ReplaceAll(name[:min(len(name), maxOwner)], "-", "_"))
}

// from has a service at a place take the modules from a clone, and says which Go they ask for.
func (s *Service) from(o Options, place string, values map[string]any) (goVersion string, err error) {
	c, err := open(o.Clone)
	if err != nil {
		return "", err
	}
	if err := c.outside(filepath.Dir(place), o); err != nil {
		return "", err
	}
	toClone := c.wayFrom(place)
	s.Clone, s.files["go.sum"] = c.dir, c.sums
	s.files["go.mod"], err = c.goMod(o.Module, toClone)
	values["Modules"], values["Clone"] = c.modules, Quote(toClone)
	return c.mod.Go.Version, err
}

// vacant is where the directory of the service will be, without symbolic links: what is
// relative in go.mod begins there.
func vacant(o Options) (string, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(dir); err == nil {
		return "", fmt.Errorf("%s is there already, and nothing is overwritten; name a new directory with --dir", o.Dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", fmt.Errorf("the directory that %s would be in: %w", o.Dir, err)
	}
	return filepath.Join(parent, filepath.Base(dir)), nil
}

// Write makes the directory with all files, or nothing.
func (s *Service) Write() (err error) {
	stage, err := os.MkdirTemp(filepath.Dir(s.Dir), ".busbar-init-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	made := filepath.Join(stage, "service") // a directory of MkdirTemp is its owner's alone
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	for name, text := range s.files {
		if err := os.MkdirAll(filepath.Join(made, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(made, name), text, 0o644); err != nil {
			return err
		}
	}
	return os.Rename(made, s.Dir) // fails where something has come meanwhile
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// Quote writes a path as a shell has to be given it.
func Quote(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
