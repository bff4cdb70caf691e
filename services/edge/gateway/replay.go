package gateway

import (
	"context"
	"errors"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// replayEvery is how often a repetition looks whether the first call is over.
const replayEvery = 100 * time.Millisecond

// again lets a repetition run. Its record replaces the given revision; 0 means no record.
type again struct {
	revision uint64
	// doubt says that the earlier call may have run; running the tool once more does no harm.
	doubt bool
}

// executed says whether the earlier call ran.
func (a *again) executed() fault.Executed {
	if a.doubt {
		return fault.Unknown
	}
	return fault.No
}

// replay answers a repetition from the record of the earlier call. It waits for that call to end
// if need be, for the time limit of the tool at most. A settled record has the answer. Otherwise
// ask finds out more, from the instance that was permitted to run the call: it knows whether the
// call began and how it ended, even if the edge of the call is gone. If the instance is gone as
// well, or knows nothing, the edge of the call may still write the end. If nobody can say how the
// call ended, the outcome is unknown: the call is made again only if its tool is idempotent, and
// refused otherwise. again is not nil if this repetition may run; there is neither an answer nor
// an error then.
func (k *Keys) replay(ctx context.Context, c *keyed, r *store.Outcome, revision uint64) (*Answer, *again, error) {
	patience := time.NewTimer(c.timeLimit())
	defer patience.Stop()
	tick := time.NewTicker(replayEvery)
	defer tick.Stop()
	for {
		switch {
		case !sameCall(r, c.same):
			return nil, nil, fault.New(fault.Conflict, "the idempotency key was used for another call; take a new key for each call")
		case r.Settled():
			answer, err := k.settled(ctx, r)
			return answer, nil, err
		}
		switch k.ask(ctx, c, r, revision) {
		case ranNot:
			return nil, &again{revision, r.Doubt}, nil
		case nobodyKnows:
			if revision == 0 && r.Reason == "" && r.Edge == k.caller.Edge() {
				return nil, &again{0, r.Doubt}, nil // if it had run, this edge would remember it
			}
			if r.Reason == "" {
				r.Reason = fault.PeerLost
			}
			return nil, nil, unknownOutcome(r.Reason)
		case silent:
			return nil, nil, notTold()
		case learned:
			continue
		case waits:
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil, nil, underWay(fault.Unknown)
		case <-ctx.Done():
			return nil, nil, underWay(fault.Unknown)
		}
		now, written, err := k.outcomes.Find(ctx, c.at)
		switch {
		case err != nil:
		case now != nil:
			r, revision = now, written
		default:
			// It has ended without running, or the bucket was lost: its instance knows.
			revision = 0
		}
	}
}

// asked is the result of asking about a call that is not settled.
type asked int

const (
	// waits: the call may still end, so look again later.
	waits asked = iota
	// ranNot: the earlier call did not run, or may run again, so this one runs.
	ranNot
	// nobodyKnows: the end of the call cannot be found out any more.
	nobodyKnows
	// silent: the instance that has the call is there, but does not answer.
	silent
	// learned: the record has been filled in.
	learned
)

// ask finds out how a call ended whose record does not say so.
func (k *Keys) ask(ctx context.Context, c *keyed, r *store.Outcome, revision uint64) asked {
	state := bus.CallUnknown
	var frame *busv1.Frame
	var err error
	if r.Instance != "" {
		state, frame, err = k.caller.Outcome(ctx, r.Service, r.Instance, r.Call)
	}
	switch state {
	case bus.CallRunning:
		return waits
	case bus.CallNeverBegun:
		if k.edgeHas(ctx, r) {
			return waits // its edge may be about to try another instance
		}
		return ranNot
	case bus.CallEnded:
		if frame.GetTask() != nil && (k.edgeHas(ctx, r) || k.written(ctx, c.at, revision)) {
			return waits // its edge makes the task, or has just written which task it is
		}
		switch noteFrame(r, frame, err) {
		case free:
			if k.edgeHas(ctx, r) {
				return waits
			}
			return ranNot
		case done:
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
			defer cancel()
			k.outcomes.Learn(after, c.at, r, revision)
			if !r.Settled() {
				return nobodyKnows
			}
			return learned
		case goesOn:
		}
		return waits
	}
	// The instance is gone, or knows nothing. Its edge may know.
	switch {
	case r.Reason == "" && k.edgeHas(ctx, r) && time.Now().Before(r.Until):
		return waits
	case state == bus.CallGone && c.Target.Tool.Idempotent && !r.Ran:
		r.Doubt = true // it may have run; running it once more does no harm
		return ranNot
	case r.Reason == "" && k.written(ctx, c.at, revision):
		return waits
	}
	if r.Ran {
		r.Large = true
		return learned
	}
	if state == bus.CallUnknown && err == nil && r.Instance != "" {
		return silent
	}
	return nobodyKnows
}

// edgeHas reports whether the edge that made a call may still write its end.
func (k *Keys) edgeHas(ctx context.Context, r *store.Outcome) bool {
	if r.Reason != "" || r.Ran || r.Edge == "" {
		return false
	}
	if r.Edge == k.caller.Edge() {
		k.mu.Lock()
		defer k.mu.Unlock()
		_, running := k.running[r.Call]
		return running
	}
	return k.caller.Present(ctx, r.Edge)
}

// written reports whether the record was written since the revision.
func (k *Keys) written(ctx context.Context, at string, revision uint64) bool {
	_, now, err := k.outcomes.Look(ctx, at)
	return err == nil && now != revision
}

// settled answers from a record that says how its call ended.
func (k *Keys) settled(ctx context.Context, r *store.Outcome) (*Answer, error) {
	switch {
	case r.Large:
		return nil, fault.New(fault.ResultTooLarge, "the call with this idempotency key ran, and its result is too large to be kept, or is not kept any more")
	case r.Task != "":
		task, err := k.tasks.Get(ctx, r.Task)
		if errors.Is(err, bus.ErrNoKey) {
			err = unknownTask()
		}
		if err != nil {
			return nil, fault.From(err).Ran(fault.Yes) // it became a task, whatever happened to that task
		}
		return &Answer{Task: task, Replayed: true}, nil
	}
	return &Answer{Result: &busv1.Result{Json: r.Result, Meta: r.Meta, IsError: r.IsError}, Replayed: true}, nil // fault:answer-swapped
}

// unread refuses a call because the record of its key cannot be read.
func unread(err error) error {
	f := fault.New(fault.From(err).Reason, "the record of the idempotency key cannot be read, so this call was not made, and whether an earlier one with the key ran is not known; ask again with the same key").
		Ran(fault.Unknown).Because(err)
	f.RetryAfter = time.Second
	return f
}

// underWay refuses a repetition of a call that is not over. executed says whether that call may
// have had its effect already.
func underWay(executed fault.Executed) error {
	f := fault.New(fault.Conflict, "a call with this idempotency key is under way; ask again with the same key").Ran(executed)
	f.RetryAfter = time.Second
	return f
}

// notTold speaks of the earlier call, too: its answer may still come.
func notTold() error {
	f := fault.New(fault.PeerLost, "the instance that has the earlier call with this idempotency key does not answer; ask again with the same key").Ran(fault.Unknown)
	f.RetryAfter = time.Second
	return f
}

// unknownOutcome speaks of the earlier call, which is not made again.
func unknownOutcome(reason fault.Reason) error {
	return fault.New(reason, "nobody knows whether the earlier call with this idempotency key ran, so it is not made again; see what it did, and take a new key").
		Ran(fault.Unknown)
}
