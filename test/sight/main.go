// Command sight starts a fleet of docker-compose.yml with its Prometheus, makes calls, and
// asks that Prometheus all that the dashboards of Grafana and the alerts ask: each query
// has to be understood, to be about figures and labels that programs have, and to have an
// answer. "make sight" runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/fleet"
)

// runTime bounds all of it, with the building of the programs.
const runTime = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done within %v, or interrupted: %w", runTime, err)
		}
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not on this machine: install Prometheus (Debian: apt-get install prometheus)", name)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	rules := exec.CommandContext(ctx, "promtool", "test", "rules", "alerts_test.yml")
	rules.Dir = filepath.Join(root, "deploy/compose")
	if out, err := rules.CombinedOutput(); err != nil {
		return fmt.Errorf("alerts: %w\n%s", err, out)
	}
	fmt.Println("ok: each alert is told when it has to be, and else not")
	// With a collector calls are recorded as traces, and a recorded call is an exemplar of a
	// figure.
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	if err := os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL); err != nil {
		return err
	}
	network, claim, err := fleet.Network()
	if err != nil {
		return err
	}
	defer func() { _ = claim.Close() }()
	dir, err := os.MkdirTemp("", "busbar-sight-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // PostgreSQL runs as another user
	}
	if err != nil {
		return err
	}
	f, err := fleet.New(ctx, fleet.Options{Root: root, Files: []string{filepath.Join(root, "docker-compose.yml")}, Dir: dir, Profile: "small", Network: network, Out: io.Discard})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Down(err == nil))
		if err != nil {
			fmt.Fprintln(os.Stderr, "logs are in", dir) // its cause is said after that
		}
	}()
	if err := f.Up(ctx); err != nil {
		return err
	}
	fmt.Println("ok: the fleet is up")
	if err := refused(ctx, f); err != nil {
		return err
	}
	calling, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); call(calling, f.At("edge-1", "8000")) }()
	defer func() { stop(); <-ended }()
	p := prometheus{at: f.At("prometheus", "9090"), until: time.Now().Add(askTime)}
	return errors.Join(p.targets(ctx, f), p.dashboards(ctx, filepath.Join(root, "deploy/compose/grafana/dashboards")), p.alerts(ctx), p.proof(ctx))
}

const (
	text = `{"text":"seen"}`
	// many calls at once are more than a visitor may make.
	many = 200
	// refuseTime is how long the command tries to get a refusal, pause the time between two tries.
	refuseTime = 2 * time.Minute
	pause      = 20 * time.Millisecond
	// failTime is how long calls fail.
	failTime = 2 * time.Second
)

// refused makes calls until one was refused by a limit, and one failed because its service
// was killed, which is started again; and one with a key that nobody has.
func refused(ctx context.Context, f *fleet.Fleet) error {
	edge := f.At("edge-1", "8000")
	if _, _, err := caller.Post(ctx, edge, "/tools/analyzeText", text, "Authorization", "Bearer bb_nobody"); err != nil {
		return err
	}
	if err := until(ctx, "a limit refuses a call", func() bool {
		var limited atomic.Bool
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				if a := caller.REST(ctx, edge, caller.Call{Tool: "analyzeText", Arguments: text}); a.Reason == "rate_limited" {
					limited.Store(true)
				}
			})
		}
		all.Wait()
		return limited.Load()
	}); err != nil {
		return err
	}
	if err := f.Signal("text", syscall.SIGKILL); err != nil {
		return err
	}
	var last caller.Answer
	away := func() bool {
		last = caller.REST(ctx, edge, caller.Call{Tool: "analyzeText", Arguments: text})
		return slices.Contains([]string{"unavailable", "peer_lost", "deadline_exceeded"}, last.Reason)
	}
	if err := until(ctx, "a call fails because its service is away", away); err != nil {
		return fmt.Errorf("%w: %v", err, last)
	}
	// An edge records so many traces in a second, and the calls above took them all: one of
	// a second in which nobody else called is recorded, also by a machine that stood still.
	for begin, failed := time.Now(), 0; ctx.Err() == nil && (failed < 2 || time.Since(begin) < failTime); {
		if away() {
			failed++
		}
		time.Sleep(pause)
	}
	return f.Start(ctx, "text")
}

// until makes something happen. It takes its time between two tries: what was refused by a
// limit is so again at once.
func until(ctx context.Context, what string, happened func() bool) error {
	for end := time.Now().Add(refuseTime); ; time.Sleep(pause) {
		if happened() {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("%s: it does not within %v", what, refuseTime)
		}
	}
}

// call makes calls that end in all ways that a panel is about, until ctx ends.
func call(ctx context.Context, edge string) {
	for n := 0; ctx.Err() == nil; n++ {
		uri := fmt.Sprintf("sight:%d", n)
		for _, c := range []caller.Call{
			{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"seen"}`, uri), Key: uri},
			{Tool: "read_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri)},
			{Tool: "analyzeText", Arguments: text},
			{Tool: "analyzeText", Arguments: `{"text":7}`},
			{Tool: "list_prompts", Arguments: `{}`},
			{Tool: "analyzeText", Arguments: text},
			{Tool: "nobody", Arguments: `{}`},
		} {
			_ = caller.REST(ctx, edge, c)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
