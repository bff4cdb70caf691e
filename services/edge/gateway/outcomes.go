package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// maxOutcome bounds a result that is kept, bytes.
	maxOutcome = 96 << 10
	// outcomeTime bounds the writing of an outcome, which goes on when the client
	// has left.
	outcomeTime = 2 * time.Second
	// outcomeMargin is how long after a call's time limit its edge may still
	// write how it ended.
	outcomeMargin = 5 * time.Second
)

// Outcomes are the Deduplicator in the bus's outcomes bucket, which is the same
// for all edges: a record of each call with an idempotency key, written before
// it runs and again when it is over.
type Outcomes struct {
	bucket *bus.Bucket
	tasks  Tasks
	now    func() time.Time
}

// NewOutcomes opens the Outcomes of the bus.
func NewOutcomes(ctx context.Context, conn *bus.Conn, tasks Tasks) (*Outcomes, error) {
	bucket, err := conn.Bucket(ctx, bus.OutcomesBucket)
	if err != nil {
		return nil, err
	}
	return &Outcomes{bucket, tasks, time.Now}, nil
}

// outcome is the record of a call. Of Reason, Task, Large and Result one at most
// is set; none while the call runs.
type outcome struct {
	// Digest is that of what is called, and with what.
	Digest []byte `json:"digest"`
	// Until is when the call is over in any case.
	Until time.Time `json:"until"`

	// Reason is why nobody knows whether it ran.
	Reason fault.Reason `json:"reason,omitzero"`
	Task   string       `json:"task,omitzero"`
	// Large says that it ran, and that its result is too large to be kept.
	Large   bool           `json:"large,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Meta    jsontext.Value `json:"meta,omitzero"`
	IsError bool           `json:"isError,omitzero"`
}

// Once implements Deduplicator.
func (o *Outcomes) Once(ctx context.Context, c *Call, run func(context.Context) (*Answer, error)) (*Answer, error) {
	key := digest(c.Principal.ID(), c.IdempotencyKey)
	record := &outcome{Digest: digest([]byte(c.Method), []byte(c.Name), c.Arguments), Until: o.now().Add(timeLimit(c) + outcomeMargin).UTC()}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	at := hex.EncodeToString(key)
	first, err := o.bucket.Create(ctx, at, raw)
	if err != nil {
		return nil, err
	}
	if !first {
		return o.replay(ctx, c, at, record.Digest)
	}
	answer, err := run(ctx)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	if !record.take(answer, err) {
		if gone := o.bucket.Delete(after, at); err == nil {
			err = gone
		}
		return answer, err
	}
	// When this cannot be written, the call counts as one of which nobody knows
	// whether it ran, which is safe.
	if raw, merr := json.Marshal(record); merr == nil {
		_ = o.bucket.Put(after, at, raw)
	}
	return answer, err
}

// take notes how a call ended, and reports false for one that may be made again
// because nothing ran, or because it is not over.
func (r *outcome) take(a *Answer, err error) bool {
	switch f := fault.From(err); {
	case f != nil:
		r.Reason = f.Reason
		return f.Executed != fault.No
	case a.InputRequired != nil:
		return false // nothing has an effect before the last question
	case a.Task != nil:
		r.Task = a.Task.Request.GetId()
	case a.Result == nil:
		r.Reason = fault.PeerLost // it goes on, for a client that comes back elsewhere
	case len(a.Result.Json)+len(a.Result.Meta) > maxOutcome:
		r.Large = true
	default:
		r.Result, r.IsError = a.Result.Json, a.Result.IsError
		if len(a.Result.Meta) > 0 {
			r.Meta = a.Result.Meta
		}
	}
	return true
}

// replay answers a call that was made before.
func (o *Outcomes) replay(ctx context.Context, c *Call, at string, same []byte) (*Answer, error) {
	raw, err := o.bucket.Get(ctx, at)
	if errors.Is(err, bus.ErrNoKey) {
		return nil, underWay() // it has just ended without running
	}
	if err != nil {
		return nil, err
	}
	r := &outcome{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	switch {
	case !bytes.Equal(r.Digest, same):
		return nil, fault.New(fault.Conflict, "the idempotency key was used for another call; take a new key for each call")
	case r.Reason != "":
		return nil, unknownOutcome(r.Reason)
	case r.Large:
		return nil, fault.New(fault.ResultTooLarge, "the call with this idempotency key ran, and its result is too large to be kept")
	case r.Task != "":
		c.Replayed = true
		task, err := o.tasks.Get(ctx, r.Task)
		if errors.Is(err, bus.ErrNoKey) {
			return nil, unknownTask()
		}
		return &Answer{Task: task}, err
	case r.Result != nil:
		c.Replayed = true
		return &Answer{Result: &busv1.Result{Json: r.Result, Meta: r.Meta, IsError: r.IsError}}, nil
	case o.now().Before(r.Until):
		return nil, underWay()
	}
	return nil, unknownOutcome(fault.PeerLost) // its edge died
}

func underWay() error {
	f := fault.New(fault.Conflict, "a call with this idempotency key is under way; ask again with the same key")
	f.RetryAfter = time.Second
	return f
}

// unknownOutcome is about the earlier call, which is not made again.
func unknownOutcome(reason fault.Reason) error {
	return fault.New(reason, "nobody knows whether the earlier call with this idempotency key ran, so it is not made again; see what it did, and take a new key").
		Ran(fault.Unknown)
}
