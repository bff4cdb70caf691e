package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// machine is where figures were taken: they are worth nothing without it.
type machine struct {
	Version, Processor, System, Go string
	Processors                     int
	// Load is the load average at the beginning and at the end.
	LoadBefore, LoadAfter string
	Date                  string
}

func thisMachine(root string) machine {
	m := machine{Processors: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Processor: "unknown processor", Version: "unknown", LoadBefore: loadAverage()}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.Processor = strings.TrimSpace(value)
			break
		}
	}
	git := exec.Command("git", "describe", "--always", "--dirty", "--tags")
	git.Dir = root
	if out, err := git.Output(); err == nil {
		m.Version = strings.TrimSpace(string(out))
	}
	return m
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// built are the programs that are measured.
type built struct {
	dir, nats string
	// instead are programs that are started instead of those that are shipped.
	instead map[string]string
}

func (b built) path(name string) string {
	if other, ok := b.instead[name]; ok {
		return other
	}
	return filepath.Join(b.dir, name)
}

// build brings all programs up to date; it builds this checkout's as they are shipped.
func build(ctx context.Context, root string) (built, error) {
	made, err := programs.Build(root, "./services/busbar/cmd/busbar", "./services/edge/cmd/edge", "./services/text/cmd/text", "./services/audit/cmd/audit",
		"./services/resource/cmd/resource", "./services/batch/cmd/batch", "./test/bench/cmd/bench-service", "./test/bench/cmd/bare", "./test/bench/cmd/crowd")
	if err != nil {
		return built{}, err
	}
	b := built{dir: filepath.Dir(made[0]), instead: map[string]string{}}
	b.nats = b.path("nats-server")
	for _, c := range []struct{ dir, work, out, source string }{
		{filepath.Join(root, "test", "bench", "peers"), "off", b.path("peers"), "."},
		// The NATS server is the one that the libraries require.
		{filepath.Join(root, "libs"), filepath.Join(root, "go.work"), b.nats, "github.com/nats-io/nats-server/v2"},
	} {
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", c.out, c.source)
		build.Dir, build.Env = c.dir, append(os.Environ(), "GOWORK="+c.work, "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return built{}, fmt.Errorf("build %s: %w\n%s", c.source, err, out)
		}
	}
	return b, nil
}
