package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/link"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// figure is something to measure.
type figure struct {
	name, what string
	// short is how long calls are made by default, long with --full.
	short, long time.Duration
	without     []string
	// broad: clients make calls of every kind at every door, and none may fail while nothing is away.
	broad bool
	// file is one more of this directory that the fleet is made of.
	file string
	// prepare comes before the fleet starts.
	prepare, run func(context.Context, *world) error
}

var figures = []figure{
	{name: "h1", what: "an edge is killed every 5 s", short: 40 * time.Second, long: 5 * time.Minute, run: killEdges},
	{name: "h2", what: "services are killed, and hang", short: 60 * time.Second, long: 5 * time.Minute, run: killServices},
	{name: "h3", what: "NATS servers are killed, then all of them are away", short: 90 * time.Second, long: 10 * time.Minute, run: killNATS},
	{name: "h4", what: "Postgres is killed, hangs, and is away", short: 70 * time.Second, long: 5 * time.Minute, run: killPostgres},
	{name: "network", what: "connections are cut, held and slow", short: 60 * time.Second, long: 5 * time.Minute, run: disturbNetwork},
	{name: "rolling", what: "every process is stopped and started, clients do not retry", short: 30 * time.Second, long: 30 * time.Second, run: rolling},
	{name: "releases", what: "the previous release and this one side by side, and an update under load", short: 20 * time.Second, long: time.Minute, prepare: startPrevious, run: releases},
	{name: "disks", what: "the disks of Postgres and NATS are full, and have room again", short: 60 * time.Second, long: 3 * time.Minute, prepare: mount(serverDisks), run: fillDisks(serverDisks)},
	{name: "sqlite", what: "the disk of a service with SQLite is full, and has room again", short: 30 * time.Second, long: time.Minute, without: []string{"resource-2"}, file: "sqlite.yml", prepare: mount(sqliteDisk), run: fillDisks(sqliteDisk)},
	{name: "twice", what: "an edge sends everything twice", short: 15 * time.Second, long: time.Minute, run: unnoticed(sendsTwice)},
	{name: "clock", what: "the clocks of an edge and of a service are off", short: 15 * time.Second, long: time.Minute, run: unnoticed(behind, ahead)},
	{name: "h7", what: "idle streams, and readers that do not read", short: 30 * time.Second, long: 2 * time.Minute, run: streams},
	{name: "proof", what: "bugs are planted, each of which an oracle has to find", run: prove},
	{name: "h10", what: "the audit trail is tampered with", short: 10 * time.Second, long: 30 * time.Second, run: tamper},
}

// smoke is a short run of a minute or two.
var smoke = figure{name: "smoke", what: "an edge, a service, a NATS server and Postgres are killed, an edge is cut off", short: 40 * time.Second, long: 40 * time.Second, run: func(ctx context.Context, w *world) error {
	_, err := w.under(ctx, load.Load{}, func(ctx context.Context) error {
		for _, part := range []string{"edge-1", "ledger", "database", "resource-2", "nats-2"} {
			_ = pause(ctx, time.Second)
			if err := w.kill(ctx, part, time.Second); err != nil {
				return err
			}
		}
		return w.broken(ctx, "edge-2", w.toBus, (*link.Link).Cut, 3*time.Second)
	})
	return err
}}

// random decides what happens when; the same seed is the same schedule.
func (w *world) random() *rand.Rand { return rand.New(rand.NewPCG(w.seed, 0)) }

// every takes parts away in turn, once in each interval, until the time is over.
func (w *world) every(ctx context.Context, interval time.Duration, parts []string, take func(part string) error) (n int, err error) {
	r, end := w.random(), time.Now().Add(w.length-5*time.Second)
	for time.Now().Before(end) && ctx.Err() == nil {
		next := time.After(interval)
		if err := take(parts[r.IntN(len(parts))]); err != nil {
			return n, err
		}
		n++
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return n, nil
}

func killEdges(ctx context.Context, w *world) error {
	n := 0
	calls, err := w.under(ctx, load.Load{}, func(ctx context.Context) (err error) {
		n, err = w.every(ctx, 5*time.Second, []string{"edge-1", "edge-2"}, func(part string) error { return w.kill(ctx, part, time.Second) })
		return err
	})
	w.result.row("kills of an edge", "", "%d", n)
	w.recovery(calls)
	return err
}

// recovery is how long calls took that had to be repeated and succeeded.
func (w *world) recovery(calls []history.Call) {
	var took []time.Duration
	for _, c := range calls {
		if served := c.Served(); len(served) > 1 && c.OK() && c.Kind != history.Approval && c.Kind != history.Told {
			took = append(took, served[len(served)-1].Ended.Sub(c.Began))
		}
	}
	w.result.row("calls that were repeated and succeeded", "", "%d", len(took))
	w.result.row("recovery, p50 / p99 / worst", "p99 < 1 s, worst < 3 s", "%v / %v / %v", quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1))
}

func killServices(ctx context.Context, w *world) error {
	hung, hang := oracle.Span{}, 15*time.Second
	n, calm := 0, time.Time{}
	calls, err := w.under(ctx, load.Load{}, func(ctx context.Context) (err error) {
		_ = pause(ctx, 5*time.Second)
		calm = time.Now()
		whole := w.length
		w.length -= hang + 15*time.Second
		n, err = w.every(ctx, 5*time.Second, []string{"ledger", "ledger-2", "resource", "resource-2"}, func(part string) error { return w.kill(ctx, part, time.Second) })
		w.length = whole
		if err != nil {
			return err
		}
		_ = pause(ctx, 3*time.Second)
		hung = oracle.Span{From: time.Now().Add(time.Second), To: time.Now().Add(hang)}
		return w.hang(ctx, "ledger-2", hang)
	})
	w.result.row("kills of a service", "", "%d", n)
	w.recovery(calls)
	const slow = 500 * time.Millisecond
	var failed, served []time.Duration
	during, affected, before, floor := 0, 0, 0, 0
	for _, c := range calls {
		if slices.Contains([]history.Kind{history.Impatient, history.Overdue, history.Approval, history.Told}, c.Kind) {
			continue
		}
		began := c.Tries[0].Began
		for _, t := range c.Tries {
			if took := t.Ended.Sub(t.Began); !t.OK {
				failed = append(failed, took)
			} else if hung.From.Add(-time.Second).Before(began) && hung.To.After(began) {
				served = append(served, took)
			}
		}
		if c.Kind == history.Stored || c.Kind == history.Task {
			continue // not of the service that hangs, or longer than a second anyhow
		}
		affects := c.Affected(slow)
		switch {
		case began.Before(calm):
			before++
			if affects {
				floor++
			}
		case hung.From.Before(began) && hung.To.After(began):
			during++
			if affects {
				affected++
			}
		}
	}
	w.result.row("a try that failed ended within, p99 / worst", "1 s", "%v / %v", quantile(failed, 0.99), quantile(failed, 1))
	w.result.row("a try that succeeded while an instance hung took, p99 / worst", "1 s", "%v / %v", quantile(served, 0.99), quantile(served, 1))
	w.result.row(fmt.Sprintf("failed, repeated or slower than %v after the first second of the hang", slow), "1 %", "%d of %d; before any fault %d of %d", affected, during, floor, before)
	return err
}

func killNATS(ctx context.Context, w *world) error {
	outage := 15 * time.Second
	if w.full {
		outage = 3 * time.Minute
	}
	n, back, led, one := 0, time.Duration(0), time.Duration(0), time.Time{}
	calls, err := w.under(ctx, load.Load{RetryFor: outage + 2*time.Minute}, func(ctx context.Context) (err error) {
		whole := w.length
		w.length -= outage + 15*time.Second
		n, err = w.every(ctx, 20*time.Second, []string{"the leader of outcomes", "the leader of AUDIT", "nats-1"}, func(part string) error {
			if name, found := strings.CutPrefix(part, "the leader of "); found {
				if _, part, err = w.stream(ctx, name); err != nil {
					return err
				}
			}
			return w.kill(ctx, part, 5*time.Second)
		})
		w.length = whole
		if err != nil {
			return err
		}
		_ = pause(ctx, 10*time.Second)
		one = time.Now()
		back, led, err = w.blackout(ctx, outage)
		return err
	})
	w.result.row("kills of a NATS server", "", "%d", n)
	w.recovery(calls)
	var tries []time.Duration
	for _, c := range calls {
		if slices.Contains([]history.Kind{history.Impatient, history.Overdue}, c.Kind) {
			continue
		}
		for _, t := range c.Tries {
			tries = append(tries, t.Ended.Sub(t.Began))
		}
	}
	w.result.row("a try took, p50 / p99 / p99.9 / worst", "p99.9 < 1 s", "%v / %v / %v / %v", quantile(tries, 0.5), quantile(tries, 0.99), quantile(tries, 0.999), quantile(tries, 1))
	for _, keyed := range []struct {
		kind history.Kind
		keys string
	}{{history.Stored, "the service"}, {history.Keyed, "bucket outcomes"}} {
		var took []time.Duration
		for _, c := range calls {
			if c.Kind == keyed.kind && c.OK() && c.Ended.Before(one) {
				served := c.Served()
				took = append(took, served[len(served)-1].Ended.Sub(c.Began))
			}
		}
		w.result.row("one server away: an effect whose key is kept by "+keyed.keys+" took with its retries, p50 / p99 / p99.9 / worst", "", "%d calls: %v / %v / %v / %v",
			len(took), quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999), quantile(took, 1))
	}
	w.result.row(fmt.Sprintf("all NATS servers away for %v: effects again after", outage), "5 s", "%v; a bare client of NATS reached the leaders of the streams for them after %v", back.Round(100*time.Millisecond), led.Round(100*time.Millisecond))
	return err
}

// blackout kills all NATS servers, and says how long effects take when they are back, and
// how long the streams have no leaders.
func (w *world) blackout(ctx context.Context, d time.Duration) (back, led time.Duration, err error) {
	wait, end, err := w.led(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer end()
	err = w.away("nats", func() error {
		for _, part := range servers {
			if err := w.fleet.Signal(part, syscall.SIGKILL); err != nil {
				return err
			}
		}
		_ = pause(ctx, d)
		for _, part := range servers {
			if err := w.fleet.Start(context.WithoutCancel(ctx), part); err != nil {
				return err
			}
		}
		began := time.Now()
		var leaders sync.WaitGroup
		leaders.Go(func() { led = wait() })
		err := w.usable(ctx)
		back = time.Since(began)
		leaders.Wait()
		return err
	})
	return back, led, err
}

func killPostgres(ctx context.Context, w *world) error {
	kills, hang, outage := 3, 5*time.Second, 15*time.Second
	if w.full {
		kills, hang, outage = 10, 10*time.Second, time.Minute
	}
	var back []time.Duration
	again := func() error {
		began := time.Now()
		err := w.usable(ctx)
		back = append(back, time.Since(began))
		return err
	}
	calls, err := w.under(ctx, load.Load{RetryFor: outage + time.Minute}, func(ctx context.Context) error {
		for range kills {
			_ = pause(ctx, 3*time.Second)
			if err := w.kill(ctx, "database", 100*time.Millisecond); err != nil {
				return err
			}
			if err := again(); err != nil {
				return err
			}
		}
		if err := w.hang(ctx, "database", hang); err != nil {
			return err
		}
		_ = pause(ctx, 3*time.Second)
		if err := w.away("database", func() error {
			if err := w.fleet.Stop("database"); err != nil {
				return err
			}
			_ = pause(ctx, outage)
			return w.fleet.Start(context.WithoutCancel(ctx), "database")
		}); err != nil {
			return err
		}
		return again()
	})
	var refused []time.Duration
	no := 0 // only a key that was read is "no"; the oracle says whether each is true
	for _, c := range calls {
		for _, t := range c.Tries {
			if c.Kind == history.Stored && !t.OK {
				refused = append(refused, t.Ended.Sub(t.Began))
				if t.Executed == "no" {
					no++
				}
			}
		}
	}
	w.result.row("kills of Postgres, a hang, an outage", "", "%d, %v, %v", kills, hang, outage)
	w.result.row("refused writes of resources, all with a key, marked `executed: no`", "few: their keys were read", "%d, %d", len(refused), no)
	w.result.row("a refusal took, p50 / p99 / worst", "250 ms", "%v / %v / %v", quantile(refused, 0.5), quantile(refused, 0.99), quantile(refused, 1))
	w.result.row("writes again after Postgres takes connections, worst", "1 s", "%v", quantile(back, 1))
	return err
}

// broken has a link not work for a while.
func (w *world) broken(ctx context.Context, part string, k *link.Link, how func(*link.Link), d time.Duration) error {
	return w.away(part, func() error {
		how(k)
		_ = pause(ctx, d)
		k.Mend()
		return nil
	})
}

func disturbNetwork(ctx context.Context, w *world) error {
	links := []struct {
		part string
		*link.Link
	}{{"edge-2", w.toBus}, {"ledger-2", w.toLedger}, {"resource-2", w.toDB}}
	ways := []struct {
		what string
		do   func(*link.Link)
	}{{"cut", (*link.Link).Cut}, {"held", (*link.Link).Hold}, {"slow", func(k *link.Link) { k.Delay(200 * time.Millisecond) }}}
	counts := map[string]int{}
	calls, err := w.under(ctx, load.Load{}, func(ctx context.Context) error {
		r, end := w.random(), time.Now().Add(w.length-10*time.Second)
		for time.Now().Before(end) && ctx.Err() == nil {
			k, way := links[r.IntN(len(links))], ways[r.IntN(len(ways))]
			counts[k.part+" "+way.what]++
			if err := w.broken(ctx, k.part, k.Link, way.do, 5*time.Second); err != nil {
				return err
			}
			_ = pause(ctx, 2*time.Second)
		}
		return nil
	})
	w.recovery(calls)
	for _, what := range sorted(counts) {
		w.result.row(what+" for 5 s", "", "%d times", counts[what])
	}
	return err
}

// once are kinds of calls that are not repeated, with or without an effect.
var once = []history.Kind{history.ReadOnce, history.Write}

func rolling(ctx context.Context, w *world) error {
	proxy := w.fleet.At("proxy", "8000")
	if a := caller.REST(ctx, proxy, caller.Call{Tool: "look", Arguments: `{"key":"x"}`}); !a.OK {
		w.result.row("skipped", "", "there is no haproxy on this machine, and clients that do not retry need one in front")
		return nil
	}
	stopped := 0
	var slowest string
	var longest time.Duration
	calls, err := w.under(ctx, load.Load{Edges: []string{proxy}, Only: once}, func(ctx context.Context) error {
		for _, part := range []string{
			"ledger", "ledger-2", "text", "text-2", "resource", "resource-2", "audit", "audit-2", "edge-1", "edge-2", "nats-1", "nats-2", "nats-3",
		} {
			began := time.Now()
			if err := w.again(ctx, part); err != nil {
				return err
			}
			stopped++
			if took := time.Since(began); took > longest {
				longest, slowest = took, part
			}
			_ = pause(ctx, time.Second)
		}
		return nil
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, c := range calls {
		if !c.OK() {
			failed++
			w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: fmt.Sprintf("%s %s at %s: %v", c.Door, c.Kind, c.Began.Format("15:04:05.000"), c.Last().Answer)})
		}
	}
	w.result.row("processes stopped and started", "", "%d; %s took longest, %v", stopped, slowest, longest.Round(100*time.Millisecond))
	w.result.row("failed calls of clients that do not retry", "0", "%d of %d", failed, len(calls))
	return nil
}
