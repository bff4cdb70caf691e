// Command modules gives the modules of the workspace one version, in which they require
// one another by that version and replace nothing.
//
//	go run scripts/modules/main.go proxy v1.2.3 DIR   # a module proxy of them (GOPROXY=file://DIR)
//	go run scripts/modules/main.go stamp v1.2.3       # change the go.mod files and go.work of this tree
//	go run scripts/modules/main.go tags v1.2.3        # print the tags of the stamped commit
//
// Nothing is published by it. See RELEASING.md.
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const usage = "usage: go run scripts/modules/main.go proxy VERSION DIR | stamp VERSION | tags VERSION, with a VERSION such as v1.2.3"

// root is the path of the module in the top directory; the path of another is that with its
// directory.
const root = "github.com/busbar-mcp/busbar"

// versions are those that Go takes in full (go.dev/ref/mod#versions), below v2.
var versions = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// made are files that tests and profiles leave behind (.gitignore).
var made = regexp.MustCompile(`\.(test|out)$`)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || !versions.MatchString(args[1]) {
		return errors.New(usage)
	}
	dirs, err := modules()
	if err != nil {
		return err
	}
	switch version := args[1]; {
	case args[0] == "proxy" && len(args) == 3:
		for _, dir := range dirs {
			if err := publish(args[2], version, dir); err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
		return nil
	case args[0] == "stamp" && len(args) == 2:
		for _, dir := range dirs {
			if err := edit(filepath.Join(dir, "go.mod"), version); err != nil {
				return err
			}
			// The commit must build before its tags are published. A go.work counts for this tree only.
			if dir == "." {
				continue
			}
			if _, err := command("go", "work", "edit", "-replace="+path.Join(root, dir)+"@"+version+"=./"+dir); err != nil {
				return err
			}
		}
		return nil
	case args[0] == "tags" && len(args) == 2:
		for _, dir := range dirs {
			fmt.Println(path.Join(dir, version))
		}
		return nil
	}
	return errors.New(usage)
}

// modules are the directories of the modules of the workspace.
func modules() (dirs []string, err error) {
	var work struct{ Use []struct{ DiskPath string } }
	out, err := command("go", "work", "edit", "-json")
	if err == nil {
		err = json.Unmarshal(out, &work)
	}
	for _, u := range work.Use {
		dirs = append(dirs, path.Clean(u.DiskPath))
	}
	return dirs, err
}

// edit has a go.mod require our modules by version, and replace nothing.
func edit(file, version string) error {
	var mod struct {
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
	}
	out, err := command("go", "mod", "edit", "-json", file)
	if err == nil {
		err = json.Unmarshal(out, &mod)
	}
	if err != nil {
		return err
	}
	args := []string{"mod", "edit"}
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Path, root+"/") {
			args = append(args, "-require="+r.Path+"@"+version)
		}
	}
	for _, r := range mod.Replace {
		args = append(args, "-dropreplace="+r.Old.Path)
	}
	if len(args) > 2 {
		_, err = command("go", append(args, file)...)
	}
	return err
}

// publish writes a module as a proxy has it (go.dev/ref/mod#goproxy-protocol).
func publish(proxy, version, dir string) error {
	at := filepath.Join(proxy, filepath.FromSlash(path.Join(root, dir)), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	mod := filepath.Join(at, version+".mod")
	if err := copyFile(mod, filepath.Join(dir, "go.mod")); err != nil {
		return err
	}
	if err := edit(mod, version); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, version+".info"), info, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, "list"), []byte(version+"\n"), 0o644); err != nil {
		return err
	}
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	// In order, so that the same tree is the same release.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		from := files[name]
		if name == "go.mod" {
			from = mod
		}
		if err = add(z, path.Join(root, dir)+"@"+version+"/"+name, from); err != nil {
			break
		}
	}
	return errors.Join(err, z.Close(), out.Close())
}

// filesOf returns the files of a module by their names in it. It does not use git, because a tree
// that was downloaded as an archive has none. Files of a module below are left out. The licence is
// the repository's.
func filesOf(dir string) (map[string]string, error) {
	files := map[string]string{"LICENSE": "LICENSE"}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != dir:
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if err == nil || d.Name() == "node_modules" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
		case d.Type().IsRegular() && !made.MatchString(file):
			name, err := filepath.Rel(dir, file)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(name)] = file
		}
		return nil
	})
	return files, err
}

func add(z *zip.Writer, name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := z.Create(name)
	if err == nil {
		_, err = io.Copy(w, in)
	}
	return err
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

func command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out, nil
}
