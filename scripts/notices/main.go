// Command notices prints the licences and notices of everything that is linked into a program,
// except its own code. Releases and images contain them, because these licences require it.
//
//	go run scripts/notices/main.go -system linux/arm64 services/text/cmd/text
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// pages are scripts of others that a program has with the pages of an edge.
const pages = "services/edge/pages"

// legal are the names of files that have to go with a program in which their module is.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense|patents)`)

func main() {
	system := flag.String("system", runtime.GOOS+"/"+runtime.GOARCH, "the system that the program is built for")
	flag.Parse()
	goos, arch, ok := strings.Cut(*system, "/")
	if !ok || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run scripts/notices/main.go [-system OS/ARCH] DIRECTORY")
		os.Exit(2)
	}
	text, err := notices(flag.Arg(0), append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch))
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// notices returns the notices of Go, of each third-party module and of the scripts of the pages.
func notices(program string, env []string) (string, error) {
	const form = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{else if eq $.ImportPath "github.com/busbar-mcp/busbar/` + pages + `"}}pages{{end}}{{end}}`
	list := exec.Command("go", "list", "-deps", "-f", form, "./"+program)
	list.Env, list.Stderr = env, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	lines := strings.Split(string(out), "\n")
	slices.Sort(lines)
	root := exec.Command("go", "env", "GOROOT")
	root.Stderr = os.Stderr
	goroot, err := root.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Code that is linked into %s besides its own, with its licences and notices.\n", path.Base(program))
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
	err = add("Go", strings.TrimSpace(string(goroot)))
	for _, l := range slices.Compact(lines) {
		switch m := strings.Fields(l); {
		case err != nil:
			return "", err
		case len(m) == 3:
			err = add(m[0]+" "+m[1], m[2])
		case l == "pages":
			err = add("pages", pages+"/vendored")
		}
	}
	return text.String(), err
}
