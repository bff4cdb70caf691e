package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// gitReads are calls of the workspace beside the git program, which does the same.
var gitReads = []struct {
	name, tool, arguments string
	git                   []string
}{
	{"git_status", "git_status", `{"path":"main/"}`, []string{"status", "--porcelain", "-uall"}},
	{"git_log", "git_log", `{"path":"main/"}`, []string{"log", "-20"}},
	{"git_log of a file that seldom changes", "git_log", `{"path":"main/LICENSE"}`, []string{"log", "-20", "--", "LICENSE"}},
	{"git_log of a directory", "git_log", `{"path":"main/libs/bus"}`, []string{"log", "-20", "--", "libs/bus"}},
	{"git_diff", "git_diff", `{"path":"main/"}`, []string{"diff"}},
	{"git_diff, staged", "git_diff", `{"path":"main/","staged":true}`, []string{"diff", "--cached"}},
	{"git_show", "git_show", `{"path":"main/"}`, []string{"show"}},
	{"git_blame", "git_blame", `{"path":"main/README.md"}`, []string{"blame", "-L", "1,200", "README.md"}},
	{"filesystem_search", "filesystem_search", `{"query":"no file has this tuxt"}`, []string{"grep", "-I", "-i", "--untracked", "-c", "-e", "package"}},
	{"filesystem_search, expression", "filesystem_search", `{"query":"no file .* this tuxt","regexp":true}`, []string{"grep", "-I", "-i", "-E", "--untracked", "-c", "-e", "package .*"}},
}

// git is how long the tools of the workspace take on a clone of this repository, through busbar
// dev over HTTP, beside the git program: its start is its own, the way of a call is ours.
func (b *bench) git(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(b.root, ".git")); err != nil {
		b.say("git: %s is not a git repository, so there is nothing to measure on", b.root)
		return nil
	}
	clone, err := b.folder("clone")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "--no-hardlinks", b.root, clone).CombinedOutput(); err != nil {
		return fmt.Errorf("clone %s: %w\n%s", b.root, err, out)
	}
	dev, err := b.dev("--workspace-root", "main="+clone)
	if err != nil {
		return err
	}
	for _, r := range gitReads {
		target := call{tool: r.tool, arguments: r.arguments, want: "result"}.modern(dev)
		if err := await(ctx, target); err != nil {
			return err
		}
		connection, err := load.Connect(target)
		if err != nil {
			return err
		}
		b.later(func() error { connection.Close(); return nil })
		var ours, theirs []float64
		for range b.rounds {
			begin := time.Now()
			if err := connection.Call(); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			ours = append(ours, ms(time.Since(begin)))
			c := exec.CommandContext(ctx, "git", r.git...)
			c.Dir, c.Env = clone, process.Environment()
			begin = time.Now()
			if out, err := c.Output(); err != nil {
				return fmt.Errorf("git %v: %w\n%.300s", r.git, err, out)
			}
			theirs = append(theirs, ms(time.Since(begin)))
		}
		b.add(row{Group: "git", What: r.name + ", of the git program", Of: ratios(ours, theirs)})
		b.add(row{Group: "git", What: r.name, Unit: "ms", Of: ours, Want: 100, AtMost: true})
	}
	return nil
}
