package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal are the names of files that have to go with a program in which their module is.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense|patents)`)

// notices has the licences and notices of all that is linked into the program of a system,
// as these licences ask of whoever passes the program on: of Go, of each module, and of the
// scripts of the pages.
func notices(env []string) (string, error) {
	const form = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}`
	list := exec.Command("go", "list", "-deps", "-f", form, "./"+source)
	list.Env, list.Stderr = env, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool { return len(strings.Fields(l)) != 3 })
	slices.Sort(lines)
	goroot, err := command("go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("What is linked into busbar besides its own code, with its licences and notices.\n")
	add := func(of, dir string) error {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		found := false
		for _, f := range files {
			ext := strings.TrimPrefix(filepath.Ext(f.Name()), ".")
			if f.IsDir() || ext == "go" || !legal.MatchString(f.Name()) && !legal.MatchString(ext) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			found = true
			rule := strings.Repeat("=", 80)
			fmt.Fprintf(&text, "\n%s\n%s: %s\n%s\n\n%s\n", rule, of, f.Name(), rule, strings.TrimSpace(string(b)))
		}
		if !found {
			return fmt.Errorf("%s has no licence in %s", of, dir)
		}
		return nil
	}
	err = add("Go", goroot)
	for _, l := range slices.Compact(lines) {
		if m := strings.Fields(l); err == nil {
			err = add(m[0]+" "+m[1], m[2])
		}
	}
	if err == nil {
		err = add("pages", "services/edge/pages/vendored")
	}
	return text.String(), err
}
