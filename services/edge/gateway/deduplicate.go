package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Permit is asked right before an instance of a service begins a call. Its error refuses the
// call.
type Permit func(ctx context.Context, instance string) error

// Deduplicator makes a repeated call with the same idempotency key return the answer of the first
// one.
type Deduplicator interface {
	// Once runs the call, or returns the answer to the same call made before, with Replayed set.
	// The same key with other parameters is a *fault.Error with reason Conflict. Executed of its
	// errors speaks of the key: it is No only if no call with the key had begun when the record
	// was read, and this one did not run.
	Once(ctx context.Context, v View, run func(context.Context, Permit) (*Answer, error)) (*Answer, error)
	// Earlier answers a call whose service keeps keys from the record that an edge made: an older
	// release of the service did not keep them. found is false if there is no such record, if its
	// call never began, or if the record cannot be read.
	Earlier(ctx context.Context, v View) (answer *Answer, found bool, err error)
	// Ran says, for a call that was refused before Once, whether a call with its key ran: No if
	// the key's record shows that none had begun, and Unknown if the record cannot be read.
	Ran(ctx context.Context, v View) fault.Executed
}

// deduplicate runs a call once for each idempotency key.
func deduplicate(cfg *Config) link {
	if cfg.Deduplicator == nil { // fault:keys-ignored
		return nil
	}
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if r.Target.Tool.KeepsKeys {
				answer, found, err := cfg.Deduplicator.Earlier(ctx, r.View)
				if !found {
					return next(ctx, r)
				}
				r.keyRead = true
				return answer, err
			}
			r.keyRead = true
			return cfg.Deduplicator.Once(ctx, r.View, func(ctx context.Context, p Permit) (*Answer, error) {
				r.permit = p
				return next(ctx, r)
			})
		}
	}
}

const (
	// maxOutcome bounds a result that is kept, in bytes.
	//limit:kept result of a call with an idempotency key | only that the call ran is kept
	maxOutcome = 96 << 10
	// beginTime bounds the making of a record, for which an instance waits. It equals the bound
	// of the audit trail: a disk that is too slow for one is too slow for the other. A bucket
	// without a leader fails at once.
	//limit:record time to record an idempotency key before its call | `unavailable`
	beginTime = 900 * time.Millisecond
	// outcomeTime bounds the writing of an outcome, which goes on if the client has left. If the
	// outcome is not written by then, the instance still knows it.
	outcomeTime = 600 * time.Millisecond
	// outcomeMargin is how long after the time limit of a call its edge may still write how it
	// ended.
	outcomeMargin = 5 * time.Second
)

// Keys is the Deduplicator by records that all edges share (ADR 0014). The record of a key is
// made when an instance is about to begin the call, in the permit that first passes on: a call
// that reaches no instance leaves no record. The bucket accepts one record of a key, so of
// several calls with the key one begins; the others get store.ErrTaken and count as repetitions.
// When the call is over, its outcome is written into the record; if nothing ran, the record is
// removed. A repetition finds the record, and replay answers from it. One case runs twice: if
// nobody knows whether the earlier call of an idempotent tool ran, the repetition runs it again,
// with doubt set, and its errors never say that nothing ran. Start with Once.
type Keys struct {
	outcomes *store.Outcomes
	caller   *edges.Caller
	tasks    Tasks
	looks    looks

	mu sync.Mutex
	// running are the ids of this edge's calls that have a record.
	running map[string]struct{}
}

// NewKeys makes the Deduplicator for the edge of a caller.
func NewKeys(outcomes *store.Outcomes, caller *edges.Caller, tasks Tasks) *Keys {
	return &Keys{outcomes: outcomes, caller: caller, tasks: tasks, running: map[string]struct{}{}}
}

// keyed is a call with an idempotency key.
type keyed struct {
	View
	// at is the key of its record, same the digest of the method, the name and the arguments.
	at   string
	same []byte
}

func keyedOf(v View) *keyed {
	arguments, ok := sameArguments(v.Arguments)
	if !ok { // refused before or after, as they are
		arguments = v.Arguments
	}
	return &keyed{v, hex.EncodeToString(digest(v.Principal.ID(), v.IdempotencyKey)), digest([]byte(v.Method), []byte(v.Name), arguments)}
}

// Once implements Deduplicator.
func (k *Keys) Once(ctx context.Context, v View, run func(context.Context, Permit) (*Answer, error)) (*Answer, error) {
	c := keyedOf(v)
	earlier, revision, err := k.outcomes.Find(ctx, c.at)
	if err != nil {
		return nil, unread(err)
	}
	place := &again{}
	if earlier != nil {
		var answer *Answer
		if answer, place, err = k.replay(ctx, c, earlier, revision); place == nil {
			return answer, err
		}
	}
	answer, err := k.first(ctx, c, place, run)
	if !errors.Is(err, store.ErrTaken) {
		return answer, err
	}
	// Another call with the key began first, and this one returns its answer.
	if earlier, revision, err = k.outcomes.Look(ctx, c.at); err != nil {
		return nil, unread(err)
	}
	if earlier == nil {
		return nil, underWay(fault.No) // it has just ended without running
	}
	answer, place, err = k.replay(ctx, c, earlier, revision)
	if place != nil {
		return nil, underWay(place.executed())
	}
	return answer, err
}

// Earlier implements Deduplicator.
func (k *Keys) Earlier(ctx context.Context, v View) (answer *Answer, found bool, err error) {
	c := keyedOf(v)
	r, revision, err := k.outcomes.Find(ctx, c.at)
	if err != nil || r == nil {
		return nil, false, nil // a service with a database does not depend on the bucket
	}
	answer, place, err := k.replay(ctx, c, r, revision)
	return answer, place == nil, err
}

// first runs a call, whose record takes the place of an earlier one.
func (k *Keys) first(ctx context.Context, c *keyed, place *again, run func(context.Context, Permit) (*Answer, error)) (*Answer, error) {
	revision, doubt := place.revision, place.doubt
	record := &store.Outcome{
		Digest: c.same, Edge: k.caller.Edge(), Service: c.Target.Service, Call: c.ID, Doubt: doubt,
		Until: time.Now().Add(c.timeLimit() + outcomeMargin).UTC(),
	}
	// If this call did not run, its error speaks of the earlier call as well, which may have run.
	honest := func(err error) error {
		if doubt && nothingRan(err) {
			return speakingOf(fault.From(err), fault.Unknown)
		}
		return err
	}
	if err := k.outcomes.Admit(c.Account, c.at, record); err != nil {
		return nil, honest(err)
	}
	begun := false
	defer k.over(c.ID)
	answer, err := run(ctx, func(ctx context.Context, instance string) error {
		record.Instance = instance
		// Not the client's deadline: if the client leaves while the record is written, nobody
		// knows whether it was made, and it would stay.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTime)
		defer cancel()
		begin := k.outcomes.Begin
		if begun {
			begin = k.outcomes.BeginAgain
		}
		k.begins(c.ID)
		now, err := begin(ctx, c.at, record, revision)
		if err == nil {
			begun, revision = true, now
		}
		return err
	})
	if !begun {
		k.outcomes.Release(c.Account, record)
		return answer, honest(err)
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	switch end := note(record, answer, err); {
	case end == free && !doubt:
		k.outcomes.Drop(after, c.Account, c.at, record, revision)
	case end == free: // and the outcome of the earlier call is still unknown
		record.Reason = fault.PeerLost
		k.outcomes.End(after, c.Account, c.at, record, revision)
	case end == done:
		k.outcomes.End(after, c.Account, c.at, record, revision) // fault:key-forgotten
	}
	return answer, honest(err)
}

func (k *Keys) begins(call string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running[call] = struct{}{}
}

func (k *Keys) over(call string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, call)
}

// ending says what the end of a call means for its record.
type ending int

const (
	// done: the record says how the call ended, or why that is unknown.
	done ending = iota
	// free: nothing ran, or the call is not over; its key may be used again.
	free
	// goesOn: the call goes on without this edge.
	goesOn
)

// note writes into a record how its call ended.
func note(o *store.Outcome, a *Answer, err error) ending {
	switch f := fault.From(err); {
	case f != nil && f.Executed == fault.No:
		return free
	case f != nil && f.Reason == fault.ResultTooLarge:
		o.Large = true
	case f != nil:
		o.Reason = f.Reason
	case a.InputRequired != nil:
		return free // nothing has an effect before the last question
	case a.Task != nil:
		o.Task = a.Task.Request.GetId()
	case a.Result == nil:
		return goesOn // for a client that comes back elsewhere
	case len(a.Result.Json)+len(a.Result.Meta) > maxOutcome:
		o.Large = true
	default:
		o.Result, o.IsError = a.Result.Json, a.Result.IsError
		if len(a.Result.Meta) > 0 {
			o.Meta = a.Result.Meta
		}
	}
	return done
}

// noteFrame writes into a record how its call ended, from the answer that its instance kept.
func noteFrame(o *store.Outcome, frame *busv1.Frame, err error) ending {
	if err == nil && frame.GetTask() != nil {
		// Whether its edge has made the task is not known.
		o.Reason = fault.PeerLost
		return done
	}
	return note(o, answerOf(frame), err)
}

func sameCall(o *store.Outcome, digest []byte) bool { return bytes.Equal(o.Digest, digest) }
