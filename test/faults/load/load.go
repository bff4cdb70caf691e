// Package load is the clients: a seed decides the order of their calls, and package history records
// the answers.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
)

// Load configures the clients.
type Load struct {
	// Edges are addresses; a client uses them in turn.
	Edges   []string
	Seed    uint64
	Workers int
	// Think is the longest pause between two calls of a worker.
	Think time.Duration
	// RetryFor is how long a call is repeated.
	RetryFor time.Duration
	// HeardFor is how long a subscriber may have to wait.
	HeardFor time.Duration
	// Only are the kinds of calls that are made; none is all.
	Only []history.Kind
	// AtOnce: tools answer without taking time of their own.
	AtOnce  bool
	History *history.History
}

const (
	// callTime is how long a client waits for one answer.
	callTime = 40 * time.Second
	// The pause before another try doubles from the first to the last.
	firstPause, lastPause = 20 * time.Millisecond, 500 * time.Millisecond
)

// scenarios are the calls of workers, with their frequencies.
var scenarios = []struct {
	kind   history.Kind
	weight int
	play   func(*worker, context.Context, history.Kind)
}{
	{history.Read, 30, (*worker).call},
	{history.ReadOnce, 12, (*worker).call},
	{history.Write, 12, (*worker).call},
	{history.WriteAgain, 8, (*worker).call},
	{history.Keyed, 14, (*worker).call},
	{history.Session, 8, (*worker).session},
	{history.Stored, 5, (*worker).store},
	{history.Impatient, 4, (*worker).leave},
	{history.Overdue, 1, (*worker).overdue},
	{history.Approval, 3, (*worker).approve},
	{history.Task, 2, (*worker).task},
	{history.Told, 2, (*worker).subscribe},
}

// Run makes calls until ctx ends, and then waits for those under way.
func (l *Load) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range l.Workers {
		all.Go(func() {
			w := &worker{Load: l, Rand: rand.New(rand.NewPCG(l.Seed, uint64(i+1))), number: i}
			for ctx.Err() == nil {
				// The end of the run does not cut off a call that has begun.
				w.next(context.WithoutCancel(ctx))
				_ = pause(ctx, time.Duration(w.Int64N(int64(l.Think)+1)))
			}
			if w.open != nil {
				w.open.Close()
			}
		})
	}
	all.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// worker is one client after another.
type worker struct {
	*Load
	*rand.Rand
	number, turn, made int
	open               *caller.Session
}

func (w *worker) next(ctx context.Context) {
	sum := 0
	for _, s := range scenarios {
		if w.does(s.kind) {
			sum += s.weight
		}
	}
	n := w.IntN(sum)
	for _, s := range scenarios {
		if !w.does(s.kind) {
			continue
		}
		if n -= s.weight; n < 0 {
			s.play(w, ctx, s.kind)
			return
		}
	}
}

func (w *worker) does(k history.Kind) bool {
	return len(w.Only) == 0 || slices.Contains(w.Only, k)
}

// edge is the next one.
func (w *worker) edge() string {
	w.turn++
	return w.Edges[(w.number+w.turn)%len(w.Edges)]
}

// key is a new one, the same in every run of a seed.
func (w *worker) key() string {
	w.made++
	return fmt.Sprintf("%d-%d-%d", w.Seed, w.number, w.made)
}

// try makes one request at an edge.
func try(ctx context.Context, edge string, limit time.Duration, do func(context.Context) caller.Answer) history.Try {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := do(ctx)
	return history.Try{Edge: edge, Began: began, Ended: time.Now(), Answer: a}
}

// repeat makes requests until one succeeds, the time is over, or again says no.
func (w *worker) repeat(ctx context.Context, again func(history.Try) bool, do func(ctx context.Context, edge string) caller.Answer) (tries []history.Try) {
	began := time.Now()
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		edge := w.edge()
		t := try(ctx, edge, callTime, func(ctx context.Context) caller.Answer { return do(ctx, edge) })
		tries = append(tries, t)
		if t.OK || !again(t) || time.Since(began) > w.RetryFor {
			return tries
		}
		_ = pause(ctx, wait)
	}
}

func always(history.Try) bool      { return true }
func never(history.Try) bool       { return false }
func unlessRan(t history.Try) bool { return t.Executed == "no" }

// done adds a call to the history.
func (w *worker) done(kind history.Kind, door, key, broken string, tries ...history.Try) {
	w.History.Add(history.Call{Kind: kind, Door: door, Key: key, Broken: broken, Began: tries[0].Began, Ended: tries[len(tries)-1].Ended, Tries: tries})
}

// doors are the formats in which a call is made.
var doors = []struct {
	name string
	call func(context.Context, string, caller.Call) caller.Answer
}{
	{"modern", caller.Modern},
	{"legacy", legacy},
	{"rest", caller.REST},
}

// legacy makes a call in a session of its own.
func legacy(ctx context.Context, edge string, c caller.Call) caller.Answer {
	s, err := caller.OpenSession(ctx, edge)
	if err != nil {
		return caller.Unsent(err)
	}
	defer s.Close()
	return s.Call(ctx, c)
}

// call is one call of the ledger, with the repetitions of its kind.
func (w *worker) call(ctx context.Context, kind history.Kind) {
	d := doors[w.IntN(len(doors))]
	key, what := w.key(), caller.Call{Tool: "append"}
	again := never
	switch kind {
	case history.Read:
		again = always
		fallthrough
	case history.ReadOnce:
		what.Tool = "look"
	case history.WriteAgain:
		again = unlessRan
	case history.Keyed:
		again, what.Key = always, key
	}
	what.Arguments = w.arguments(key)
	tries := w.repeat(ctx, again, func(ctx context.Context, edge string) caller.Answer { return d.call(ctx, edge, what) })
	if what.Tool == "look" {
		key = ""
	}
	if kind == history.Keyed && w.IntN(2) == 0 && tries[len(tries)-1].OK {
		// A repeated call gets the same answer.
		tries = append(tries, w.repeat(ctx, always, func(ctx context.Context, edge string) caller.Answer { return d.call(ctx, edge, what) })...)
	}
	w.done(kind, d.name, key, "", tries...)
}

func (w *worker) arguments(key string) string {
	ms := []int{0, 0, 0, 10, 80}[w.IntN(5)]
	if w.AtOnce {
		ms = 0
	}
	return fmt.Sprintf(`{"key":%q,"ms":%d}`, key, ms)
}

// session makes a call in the worker's own session, wherever that was opened.
func (w *worker) session(ctx context.Context, kind history.Kind) {
	if w.open == nil {
		edge := w.edge()
		opening, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		var err error
		if w.open, err = caller.OpenSession(opening, edge); err != nil {
			w.open = nil
			now := time.Now()
			w.done(kind, "legacy", "", "", history.Try{Edge: edge, Began: now, Ended: now, Answer: caller.Unsent(err)})
			return
		}
	}
	key := w.key()
	what := caller.Call{Tool: "append", Arguments: w.arguments(key)}
	tries := w.repeat(ctx, unlessRan, func(ctx context.Context, edge string) caller.Answer {
		return (&caller.Session{Edge: edge, ID: w.open.ID}).Call(ctx, what)
	})
	w.done(kind, "legacy", key, "", tries...)
	if tries[len(tries)-1].Reason == "session" {
		w.open = nil
	}
}

// store writes a resource; the service keeps the key.
func (w *worker) store(ctx context.Context, kind history.Kind) {
	d, uri := doors[w.IntN(len(doors))], "faults:"+w.key()
	what := caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"kept"}`, uri), Key: uri}
	tries := w.repeat(ctx, always, func(ctx context.Context, edge string) caller.Answer { return d.call(ctx, edge, what) })
	w.done(kind, d.name, uri, "", tries...)
}

// long is how long a call takes that nobody waits for; its effect is halfway.
const long = 14 * time.Second

// leave begins a call and goes away long before its effect.
func (w *worker) leave(ctx context.Context, kind history.Kind) {
	key, edge := w.key(), w.edge()
	what := caller.Call{Tool: "append", Arguments: fmt.Sprintf(`{"key":%q,"ms":%d}`, key, long.Milliseconds())}
	t := try(ctx, edge, time.Duration(20+w.IntN(120))*time.Millisecond, func(ctx context.Context) caller.Answer { return caller.Modern(ctx, edge, what) })
	w.done(kind, "modern", key, "", t)
}

// overdue begins a call that cannot end in its tool's time.
func (w *worker) overdue(ctx context.Context, kind history.Kind) {
	key := w.key()
	what := caller.Call{Tool: "hasty", Arguments: fmt.Sprintf(`{"key":%q,"ms":%d}`, key, long.Milliseconds())}
	w.done(kind, "modern", key, "", w.repeat(ctx, never, func(ctx context.Context, edge string) caller.Answer { return caller.Modern(ctx, edge, what) })...)
}

// approve makes a call that a person has to agree to, agrees at another edge, and agrees
// once more. Some are never agreed to.
func (w *worker) approve(ctx context.Context, kind history.Kind) {
	key := w.key()
	what := caller.Call{Tool: "approved", Arguments: w.arguments(key)}
	held := w.repeat(ctx, func(t history.Try) bool { return t.Executed == "no" && t.Approval == "" },
		func(ctx context.Context, edge string) caller.Answer { return caller.REST(ctx, edge, what) })
	approval := held[len(held)-1].Approval
	if approval == "" || w.IntN(4) == 0 {
		w.done(kind, "rest", key, "", held...)
		return
	}
	agree := func(ctx context.Context, edge string) caller.Answer { return caller.Approve(ctx, edge, approval) }
	agreed := w.repeat(ctx, unlessRan, agree)
	broken := ""
	if agreed[0].Reason == "unknown_approval" {
		broken = "the held call is not known"
	}
	twice := w.repeat(ctx, never, agree)
	w.done(kind, "rest", key, broken, slices.Concat(held, agreed, twice)...)
}

// modern makes a request of 2026-07-28, with members that earlier versions lack.
func modern(ctx context.Context, edge, method, name, params, capabilities string) (caller.Message, error) {
	return caller.ModernPost(ctx, edge, method, name, caller.MCP(1, method, params, caller.Capable(capabilities)))
}

const tasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// jobTool begins a task.
func jobTool(ctx context.Context, edge, key string) (caller.Message, error) {
	what := caller.Call{Tool: "job", Arguments: fmt.Sprintf(`{"key":%q,"ms":200}`, key)}
	return modern(ctx, edge, mcp.MethodToolsCall, what.Tool, what.Params(), tasks)
}
