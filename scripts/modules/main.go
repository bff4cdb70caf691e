// Command modules gives the modules of the workspace one version, in which they require
// one another by that version and replace nothing.
//
//	go run scripts/modules/main.go proxy v1.2.3 DIR   # a module proxy of them (GOPROXY=file://DIR)
//	go run scripts/modules/main.go stamp v1.2.3       # change the go.mod files of this tree
//	go run scripts/modules/main.go tags v1.2.3        # print the tags of the stamped commit
//
// Nothing is published by it. See docs/releasing.md.
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// ours begins the paths of all modules of the workspace; what follows is the directory.
const ours = "github.com/busbar-mcp/busbar/"

// versions are those that Go takes in full (go.dev/ref/mod#versions), below v2.
var versions = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

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
			if err := publish(args[2], version, dir, dirs); err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
		return nil
	case args[0] == "stamp" && len(args) == 2:
		for _, dir := range dirs {
			if err := edit(filepath.Join(dir, "go.mod"), version); err != nil {
				return err
			}
		}
		return nil
	case args[0] == "tags" && len(args) == 2:
		fmt.Println(version)
		for _, dir := range dirs {
			fmt.Println(dir + "/" + version)
		}
		return nil
	}
	return errors.New(usage)
}

// modules are the directories of what others may depend on: all of the workspace but its
// tests.
func modules() (dirs []string, err error) {
	var work struct{ Use []struct{ DiskPath string } }
	out, err := command("go", "work", "edit", "-json")
	if err == nil {
		err = json.Unmarshal(out, &work)
	}
	for _, u := range work.Use {
		if dir := path.Clean(u.DiskPath); dir != "test" {
			dirs = append(dirs, dir)
		}
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
		if strings.HasPrefix(r.Path, ours) {
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
func publish(proxy, version, dir string, all []string) error {
	at := filepath.Join(proxy, filepath.FromSlash(ours+dir), "@v")
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
	files, err := filesOf(dir, all)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	for name, from := range files {
		if name == "go.mod" {
			from = mod
		}
		if err = add(z, ours+dir+"@"+version+"/"+name, from); err != nil {
			break
		}
	}
	return errors.Join(err, z.Close(), out.Close())
}

// filesOf are those of a module that git has, or would add, by their names in it. What is
// in a module below is not of this one. The licence is that of the repository.
func filesOf(dir string, all []string) (map[string]string, error) {
	out, err := command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"LICENSE": "LICENSE"}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		below := slices.ContainsFunc(all, func(other string) bool {
			return len(other) > len(dir) && strings.HasPrefix(other, dir+"/") && strings.HasPrefix(file, other+"/")
		})
		about, err := os.Lstat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return nil, err
		}
		if !below && about.Mode().IsRegular() {
			files[strings.TrimPrefix(file, dir+"/")] = file
		}
	}
	return files, nil
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
