package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

var document = flag.Bool("document", false, "write the generated part of docs/reference/command-line.md")

// page is the reference of the command line. The part between the marks is generated.
const (
	page     = "../../../../docs/reference/command-line.md"
	begin    = "<!-- Generated from the help texts: go test ./services/busbar/cmd/busbar -run TestCommandLinePage -document -->\n"
	end      = "<!-- End of the generated part. -->\n"
	maxWords = 1200
)

// TestCommandLinePage compares the reference of the command line with the help texts, and counts
// the words of what is written by hand.
func TestCommandLinePage(t *testing.T) {
	t.Parallel()
	cl, options := grammar()
	k, err := lifecycle.Parser("busbar", description, cl, append(options, kong.Exit(func(int) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, marked := strings.Cut(string(raw), begin)
	written, after, closed := strings.Cut(rest, end)
	if !marked || !closed {
		t.Fatalf("%s has no generated part between\n%sand\n%s", page, begin, end)
	}
	if n := len(strings.Fields(before + after)); n > maxWords {
		t.Errorf("%s has %d words that are not generated; at most %d are allowed", page, n, maxWords)
	}
	want := commandReference(k, before)
	if *document {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != want {
		t.Errorf("%s differs from the help texts; run go test ./services/busbar/cmd/busbar -run TestCommandLinePage -document", page)
	}
}

// commandReference is a section for each group of commands. The text before it explains flags that
// many commands have.
func commandReference(k *kong.Kong, before string) string {
	common := commonFlags(before)
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "\n### %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, leaf := range k.Model.Leaves(true) {
			if leaf.ClosestGroup() == nil || leaf.ClosestGroup().Key != g.Key {
				continue
			}
			fmt.Fprintf(&b, "\n`%s`\n\n%s\n", usage(leaf), strings.TrimSpace(leaf.Help))
			if own := ownFlags(leaf, common); own != "" {
				fmt.Fprintf(&b, "Flags: %s.\n", own)
			}
			if leaf.Detail != "" {
				fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimSpace(leaf.Detail))
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

// usage is a command with its arguments.
func usage(leaf *kong.Node) string {
	text := leaf.FullPath()
	for _, p := range leaf.Positional {
		name := p.Name
		if p.IsSlice() {
			name += " …"
		}
		if !p.Required {
			name = "[" + name + "]"
		}
		text += " " + name
	}
	return text
}

var flagInText = regexp.MustCompile("`--([a-z-]+)`")

// commonFlags are the flags that the introduction explains, up to the first heading.
func commonFlags(before string) map[string]bool {
	introduction, _, _ := strings.Cut(before, "\n## ")
	common := map[string]bool{}
	for _, m := range flagInText.FindAllStringSubmatch(introduction, -1) {
		common[m[1]] = true
	}
	return common
}

// variable is the environment variable of a common flag. A flag of the same name with another
// variable is another flag.
func variable(flag string) string {
	return "BUSBAR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ownFlags are the other flags of a command.
func ownFlags(leaf *kong.Node, common map[string]bool) string {
	var all []string
	for _, f := range leaf.Flags {
		if f.Hidden || common[f.Name] && slices.Contains(f.Envs, variable(f.Name)) {
			continue
		}
		text := "--" + f.Name
		if taken(f) != "" {
			text += "=" + f.FormatPlaceHolder()
		}
		all = append(all, "`"+text+"`")
	}
	return strings.Join(all, ", ")
}

// TestGroups: the help shows each command in one of six groups.
func TestGroups(t *testing.T) {
	t.Parallel()
	cl, options := grammar()
	k, err := lifecycle.Parser("busbar", description, cl, append(options, kong.Exit(func(int) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range k.Model.Leaves(true) {
		if leaf.ClosestGroup() == nil {
			t.Errorf("%s is in no group", leaf.FullPath())
		}
	}
	var out strings.Builder
	k.Stdout, k.Stderr = &out, io.Discard
	_, _ = k.Parse([]string{"--help"}) // continues where the help ends the program
	at := -1
	for _, g := range groups {
		now := strings.Index(out.String(), "\n"+g.Title+"\n")
		if now <= at {
			t.Errorf("%q is not in its place:\n%s", g.Title, out.String())
		}
		at = now
	}
	if n := strings.Count(out.String(), ":\n"); n != len(groups)+1 { // and the flags
		t.Errorf("the help has %d sections:\n%s", n, out.String())
	}
}
