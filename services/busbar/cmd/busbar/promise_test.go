package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

var promise = flag.Bool("promise", false, "write testdata/commands.txt, after what was removed has been under its old name for a release")

// TestPromise holds the command line to what docs/guides/operate.md promises: no command,
// argument, flag or variable goes, or becomes one that has to be given.
func TestPromise(t *testing.T) {
	t.Parallel()
	cl, options := grammar()
	k, err := lifecycle.Parser("busbar", description, cl, options...)
	if err != nil {
		t.Fatal(err)
	}
	var now []string
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		at := n.FullPath()
		if n.Type == kong.CommandNode {
			now = append(now, at)
			for _, alias := range n.Aliases {
				now = append(now, at+" (also "+alias+")")
			}
		}
		for i, p := range n.Positional {
			now = append(now, fmt.Sprintf("%s: argument %d%s", at, i+1, needed(p.Required)))
		}
		for _, f := range n.Flags {
			if f.Hidden && f.Name != "help" {
				continue
			}
			now = append(now, at+" --"+f.Name+taken(f)+needed(f.Required))
			if f.Short != 0 {
				now = append(now, at+" -"+string(f.Short))
			}
			for _, env := range f.Envs {
				now = append(now, at+" $"+env)
			}
		}
		for _, c := range n.Children {
			if !c.Hidden {
				walk(c)
			}
		}
	}
	walk(k.Model.Node)
	slices.Sort(now)
	const file = "testdata/commands.txt"
	if *promise {
		if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	promised := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range promised {
		if !slices.Contains(now, line) {
			t.Errorf("promised and gone: %s; keep it under its old name for a minor release", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(promised, line) {
			t.Errorf("not promised yet: %s; go test ./services/busbar/cmd/busbar -run TestPromise -promise", line)
		}
	}
}

// taken says whether a flag takes a value.
func taken(f *kong.Flag) string {
	if f.IsBool() || f.IsCounter() {
		return ""
	}
	return "=…"
}

func needed(is bool) string {
	if is {
		return " (has to be given)"
	}
	return ""
}
