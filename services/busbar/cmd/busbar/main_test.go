package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

// A mistake in a tag ends the program when it starts, whichever command is asked for; and
// each command says what it takes, by example.
func TestHelp(t *testing.T) {
	t.Parallel()
	cl, options := grammar()
	k, err := lifecycle.Parser("busbar", description, cl, append(options, kong.Exit(func(int) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	leaves := k.Model.Leaves(true)
	if len(leaves) < 30 {
		t.Errorf("there are %d commands", len(leaves))
	}
	seen := map[string]bool{}
	for _, leaf := range leaves {
		if seen[leaf.FullPath()] {
			t.Errorf("two commands are called %s", leaf.FullPath())
		}
		seen[leaf.FullPath()] = true
		var out strings.Builder
		k.Stdout, k.Stderr = &out, io.Discard
		_, _ = k.Parse(append(strings.Fields(leaf.FullPath())[1:], "--help")) // goes on where help ends the program
		if !strings.HasPrefix(out.String(), "Usage: "+leaf.FullPath()) || !strings.Contains(out.String(), "Example") {
			t.Errorf("%s --help:\n%s", leaf.FullPath(), out.String())
		}
	}
	for _, group := range k.Model.Children {
		if !group.Hidden && len(group.Children) > 0 && !strings.Contains(group.Detail, "Example") {
			t.Errorf("%s --help has no example", group.FullPath())
		}
	}
}

// A mistake in a command is reported before anything is sent; an empty name is what a
// shell makes of a variable that is not set.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"call|", "empty"}, {"read|", "empty"}, {"complete||x", "empty"}, {"complete|x|", "empty"},
		{"task|get|", "empty"}, {"task|cancel|", "empty"},
		{"logs|--level|loud", "loud"}, {"logs|--for=0s", "--for"},
		{"stdio|--toolset|writing", "--access FILE"}, {"stdio|--services|nope", "it is one of"}, {"dev|--without|nope", "it is one of"},
		{"call|x|--once=", "--once"}, {"call|x|--once=" + strings.Repeat("k", 256), "has 256"}, {"top|--every=1ms", "--every"}, {"doctor|--wait=0s", "--wait"},
		{"call|x|--timeout=-1s", "--timeout"}, {"tools|--timeout=-1s", "--timeout"},
		{"key|create|ci|--principal|ci|--expires=0d", "--expires"}, {"key|create|ci|--principal|operator", "operator"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			cl, options := grammar()
			k, err := lifecycle.Parser("busbar", description, cl, options...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Parse(strings.Split(c.args, "|")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
