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
	AtOnce bool
	// Broad: calls of every kind are made, at every door, and some over one connection.
	Broad bool
	// Stdio is the command that serves MCP on standard input and output, and Home its directory.
	Stdio   []string
	Home    string
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
	broad  bool // a broad load alone has it
}{
	{history.Read, 30, (*worker).call, false},
	{history.ReadOnce, 12, (*worker).call, false},
	{history.Write, 12, (*worker).call, false},
	{history.WriteAgain, 8, (*worker).call, false},
	{history.Keyed, 14, (*worker).call, false},
	{history.Session, 8, (*worker).session, false},
	{history.Stored, 5, (*worker).store, false},
	{history.Impatient, 4, (*worker).leave, false},
	{history.Overdue, 1, (*worker).overdue, false},
	{history.Approval, 3, (*worker).approve, false},
	{history.Task, 2, (*worker).task, false},
	{history.Told, 2, (*worker).subscribe, false},
	{history.Batch, 6, (*worker).batch, true},
	{history.Elicited, 3, (*worker).elicit, true},
	{history.Resumed, 6, (*worker).resume, true},
	{history.Changed, 8, (*worker).change, true},
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
	// line is the open connection of a conversation, to an edge, at a turn.
	line     client
	lineEdge string
	lineTurn int
}

func (w *worker) next(ctx context.Context) {
	sum := 0
	for _, s := range scenarios {
		if w.does(s.kind, s.broad) {
			sum += s.weight
		}
	}
	n := w.IntN(sum)
	for _, s := range scenarios {
		if !w.does(s.kind, s.broad) {
			continue
		}
		if n -= s.weight; n < 0 {
			s.play(w, ctx, s.kind)
			return
		}
	}
}

func (w *worker) does(k history.Kind, broad bool) bool {
	return slices.Contains(w.Only, k) || len(w.Only) == 0 && (w.Broad || !broad)
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

// single are the kinds of one call of the ledger.
var single = []history.Kind{history.Read, history.Read, history.ReadOnce, history.Write, history.Write, history.WriteAgain, history.Keyed, history.Keyed}

// call makes one call, or in a broad load several over one connection.
func (w *worker) call(ctx context.Context, kind history.Kind) {
	d, n := w.door(), 1
	if w.Broad {
		n += w.IntN(20)
	}
	if d.costly {
		n = 40
	}
	for ok := w.one(ctx, d, kind); ok && n > 1; n-- {
		_ = pause(ctx, time.Duration(w.Int64N(int64(w.Think)+1)))
		ok = w.one(ctx, d, single[w.IntN(len(single))])
	}
	w.hangUp()
}

// one makes one call with the repetitions of its kind, and reports whether it succeeded.
func (w *worker) one(ctx context.Context, d door, kind history.Kind) bool {
	if d.keyless && kind == history.Keyed {
		kind = history.Write
	}
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
	if what.Tool == "look" {
		key = ""
		if w.Broad && w.IntN(3) == 0 {
			what.Tool, what.Arguments = "analyzeText", `{"text":"One bus. Many circuits."}`
		}
	}
	if w.line != nil {
		w.turn = w.lineTurn - 1 // the next edge is the one it is connected to
	}
	make := func(ctx context.Context, edge string) caller.Answer { return w.through(ctx, d, edge, what) }
	tries := w.repeat(ctx, again, make)
	ok := tries[len(tries)-1].OK
	if kind == history.Keyed && w.IntN(2) == 0 && ok {
		// A repeated call gets the same answer.
		tries = append(tries, w.repeat(ctx, always, make)...)
	}
	w.done(kind, d.name, key, "", tries...)
	return ok
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
	d, uri := doors[w.IntN(everywhere)], "faults:"+w.key()
	defer w.hangUp()
	what := caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"kept"}`, uri), Key: uri}
	tries := w.repeat(ctx, always, func(ctx context.Context, edge string) caller.Answer { return w.through(ctx, d, edge, what) })
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
