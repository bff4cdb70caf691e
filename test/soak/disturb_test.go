package soak

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// notice is the time that what is left of a fleet has to get over a loss: peers
// notice, connections are made again, what was under way ends.
const notice = 12 * time.Second

// disturbance takes something away and gives it back.
type disturbance struct {
	what string
	do   func(context.Context, *world, *rand.Rand) error
}

// disturbances are the disturbances, in turn. The first of two processes is only stopped for a
// while, as it is measured.
func disturbances() []disturbance {
	var all []disturbance
	for _, name := range []string{"edge-1", "ledger-1", "text-1", "batch-1", "resource-1", "audit-1"} {
		all = append(all, disturbance{name + " is killed", end(syscall.SIGKILL, name)}, disturbance{name + " is told to stop", end(syscall.SIGTERM, name)})
	}
	return append(all,
		disturbance{"edge-0 hangs", hang(3*time.Second, "edge-0")},
		disturbance{"ledger-0 hangs", hang(3*time.Second, "ledger-0")},
		disturbance{"resource-0 hangs", hang(3*time.Second, "resource-0")},
		disturbance{"audit hangs, both", hang(10*time.Second, "audit-0", "audit-1")},
		disturbance{"edge-1 and ledger-1 are killed", end(syscall.SIGKILL, "edge-1", "ledger-1")},
		disturbance{"NATS is killed", end(syscall.SIGKILL, "nats")},
		disturbance{"NATS hangs", hang(2*time.Second, "nats")},
		disturbance{"Postgres hangs", func(ctx context.Context, w *world, _ *rand.Rand) error {
			w.f.database.Freeze()
			defer w.f.database.Thaw()
			return pause(ctx, 3000)
		}},
	)
}

// end ends processes, leaves them away for up to three seconds, and starts them.
func end(s syscall.Signal, names ...string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		for _, name := range names {
			if err := w.f.named(name).kill(s); err != nil {
				w.fault("a process does not stop when told to", "%v", err)
			}
		}
		w.gone()
		_ = pause(ctx, r.IntN(3000))
		for _, name := range names {
			p := w.f.named(name)
			if err := p.begin(); err != nil {
				return err
			}
			if !p.awaitUp(ctx) && ctx.Err() == nil {
				w.fault("a process does not come up again", "%s", name)
			}
		}
		return nil
	}
}

// hang stops processes where they are.
func hang(d time.Duration, names ...string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, _ *rand.Rand) error {
		for _, name := range names {
			p := w.f.named(name)
			p.signal(syscall.SIGSTOP)
			defer p.signal(syscall.SIGCONT)
		}
		return pause(ctx, int(d.Milliseconds()))
	}
}

// disturb takes one thing away after another, all of them in an order of chance
// and then again, until there is no time left to get over it. Between two the
// fleet is left alone for a while, in which nothing may be refused.
func disturb(ctx context.Context, w *world, d time.Duration) {
	end := time.Now().Add(d - notice - 10*time.Second)
	r := w.random(0)
	var turn []disturbance
	for time.Now().Before(end) {
		if pause(ctx, 8000+r.IntN(4000)) != nil {
			return
		}
		if len(turn) == 0 {
			turn = disturbances()
			r.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		over := w.began(turn[0].what)
		err := turn[0].do(ctx, w, r)
		_ = pause(ctx, int(notice.Milliseconds()))
		over()
		if err != nil && ctx.Err() == nil {
			w.fault("a process cannot be started", "%v", err)
			return
		}
		turn = turn[1:]
	}
}

// gone notes that what is killed in the outage that began last has ended: on a machine that
// stands still that is later than the outage begins.
func (w *world) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages[len(w.outages)-1].gone = time.Now()
}

// killedEdge reports whether an edge was killed at a time, or shortly after, so
// that it could not record the end of a call that began then.
func (w *world) killedEdge(began time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outages {
		if strings.Contains(o.what, "edge-1") && strings.Contains(o.what, "killed") && began.Before(later(o.began, o.gone).Add(time.Second)) && began.After(o.began.Add(-callTime)) {
			return true
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// killedService reports whether the ledger, or the bus between it and edges, was
// killed at a time.
func (w *world) killedService(began, ended time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outages {
		if (strings.Contains(o.what, "ledger-1") || strings.Contains(o.what, "NATS")) && strings.Contains(o.what, "killed") && o.began.Before(ended) && o.ended.After(began) {
			return true
		}
	}
	return false
}
