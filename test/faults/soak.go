package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// soak is one long run that takes one thing after another away, and leaves the fleet alone between.
var soak = figure{
	name: "soak", what: "everything is taken away in turn, for hours, and nothing may grow", broad: true,
	short: time.Hour, long: time.Hour, run: soaked,
}

const (
	// notice is the time that the rest of a fleet has to get over a loss: peers notice, connections are
	// made again, calls under way end.
	notice = 12 * time.Second
	// endTime is how long a process may take to end its calls and itself.
	endTime = 40 * time.Second
)

// Of two instances the first is measured, and only stopped for a while; the second one is killed.
var (
	measured = []string{"edge-1", "ledger", "text", "batch", "resource", "audit", "nats-1"}
	killed   = []string{"edge-2", "ledger-2", "text-2", "batch-2", "resource-2", "audit-2"}
)

// disturbance takes something away and gives it back.
type disturbance struct {
	what string
	do   func(context.Context, *world, *rand.Rand) error
}

func disturbances() []disturbance {
	all := []disturbance{
		{"edge-1 hangs", hanging(3*time.Second, "edge-1")},
		{"ledger hangs", hanging(3*time.Second, "ledger")},
		{"resource hangs", hanging(3*time.Second, "resource")},
		{"audit hangs, both", hanging(10*time.Second, "audit", "audit-2")},
		{"edge-2 and ledger-2 are killed", killing("edge-2", "ledger-2")},
		{"a NATS server is killed", killing("nats-2")},
		{"NATS is killed", func(ctx context.Context, w *world, r *rand.Rand) error {
			return errors.Join(killing(servers...)(ctx, w, r), w.usable(ctx))
		}},
		{"NATS hangs", hanging(2*time.Second, servers...)},
		{"Postgres hangs", hanging(3*time.Second, "database")},
	}
	for _, part := range killed {
		all = append(all, disturbance{part + " is killed", killing(part)}, disturbance{part + " is told to stop", stopping(part)})
	}
	return all
}

// each does something with parts at the same time.
func each(parts []string, do func(part string) error) error {
	var all sync.WaitGroup
	failed := make([]error, len(parts))
	for i, part := range parts {
		all.Go(func() { failed[i] = do(part) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func killing(parts ...string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		d := time.Duration(r.IntN(3000)) * time.Millisecond
		return each(parts, func(part string) error { return w.kill(ctx, part, d) })
	}
}

func hanging(d time.Duration, parts ...string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, _ *rand.Rand) error {
		return each(parts, func(part string) error { return w.hang(ctx, part, d) })
	}
}

// stopping tells a part to end. It loses nothing: it is not noted among those that were killed.
func stopping(part string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		began := time.Now()
		if err := w.fleet.Stop(part); err != nil {
			return err
		}
		if took := time.Since(began); took > endTime {
			w.result.found(oracle.Finding{Oracle: oracle.Stuck, Text: fmt.Sprintf("%s took %v to stop", part, took.Round(time.Second))})
		}
		_ = pause(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		return w.fleet.Start(context.WithoutCancel(ctx), part)
	}
}

// disturb takes one thing away after another, all of them in a random order and then again, until
// the rest of the time is only enough to recover.
func disturb(ctx context.Context, w *world) error {
	r, end := w.random(), time.Now().Add(w.length-notice-10*time.Second)
	var turn []disturbance
	for !w.calm && time.Now().Before(end) && pause(ctx, 8*time.Second+time.Duration(r.IntN(4000))*time.Millisecond) == nil {
		if len(turn) == 0 {
			turn = disturbances()
			r.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		over := w.began(turn[0].what)
		err := turn[0].do(ctx, w, r)
		_ = pause(ctx, notice)
		over()
		if err != nil {
			return fmt.Errorf("%s: %w", turn[0].what, err)
		}
		turn = turn[1:]
	}
	return nil
}

func soaked(ctx context.Context, w *world) error {
	m, err := w.measure()
	if err != nil {
		return err
	}
	urls, _ := w.bus()
	edge := filepath.Join(w.fleet.Volume("bus"), permission.Edge)
	began, h := time.Now(), &history.History{}
	stopWatch, stopMeasuring, stopProgress := w.watch(), ticking(sampleEvery, m.sample), ticking(10*time.Second, func(context.Context) { w.progress(m, h.Calls(), time.Since(began)) })
	calls, err := w.under(ctx, load.Load{History: h, Home: w.dir, Stdio: []string{
		w.fleet.Program("busbar"), "stdio", "--nats", urls, "--nats-ca", filepath.Join(edge, "ca.pem"), "--nats-nkey", filepath.Join(edge, permission.Edge+".secret"),
		"--access", filepath.Join(w.root, "test/faults/access.yaml"), "--audit-spool", filepath.Join(w.fleet.Volume("edge-1"), "spool"), // what it cannot send at its end, an edge sends
	}}, func(ctx context.Context) error { return disturb(ctx, w) })
	stopProgress()
	stopMeasuring()
	stopWatch()
	if err != nil {
		return err
	}
	for _, door := range load.Doors() {
		if !slices.ContainsFunc(calls, func(c history.Call) bool { return c.Door == door && c.OK() }) {
			w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: "no call succeeded at the door " + door})
		}
	}
	m.judge(w.result)
	for _, all := range [][]outage{w.outages, w.still} {
		for _, o := range all {
			w.result.row(o.From.Format(time.TimeOnly)+" to "+o.To.Format(time.TimeOnly), "", "%s", o.what)
		}
	}
	if _, err := w.asked(ctx, "audit", "verify", "--data-dir", filepath.Join(w.dir, "parts/edge-1/data")); err != nil {
		w.result.found(oracle.Finding{Oracle: oracle.Tampered, Text: err.Error()})
	}
	return nil
}

// ticking does something again and again until it is stopped.
func ticking(every time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for pause(ctx, every) == nil {
			do(ctx)
		}
	})
	return func() { cancel(); all.Wait() }
}

// progress prints a line.
func (w *world) progress(m *measuring, calls []history.Call, since time.Duration) {
	failed := 0
	for _, c := range calls {
		if !c.OK() {
			failed++
		}
	}
	fmt.Printf("   %8s  %7d calls, %d not ok; edge %3.0f MiB, %.0f goroutines; %s\n", since.Round(time.Second), len(calls), failed,
		m.latest("edge-1 memory"), m.latest(goroutines), w.during(time.Now(), time.Now()))
}
