package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

const (
	// maxOutcome bounds a result that is kept, bytes.
	maxOutcome = 96 << 10
	// lookTime bounds the reading of a record: without it nothing runs.
	lookTime = 250 * time.Millisecond
	// beginTime bounds the making of a record, for which an instance waits.
	beginTime = 2 * time.Second
	// outcomeTime bounds the writing of an outcome, which goes on when the client
	// has left.
	outcomeTime = 2 * time.Second
	// outcomeMargin is how long after a call's time limit its edge may still
	// write how it ended.
	outcomeMargin = 5 * time.Second
	// keyOverhead is about what a record costs besides its value, bytes.
	keyOverhead = 100
)

// maxKeysOfPayer and maxKeyBytes bound the records that one payer has through one
// edge. Results are kept in three quarters of that room; beyond, only that the
// call ran.
const (
	maxKeysOfPayer = 50_000
	maxKeyBytes    = 16 << 20
	resultsPart    = 0.75
)

// Outcomes are the Deduplicator in the bus's outcomes bucket, which is the same
// for all edges: a record of each call with an idempotency key, made when an
// instance may begin it and written again when it is over (ADR 0021). A call
// that never began leaves none.
type Outcomes struct {
	bucket *bus.Bucket
	caller *edges.Caller
	tasks  Tasks
	now    func() time.Time
	memory keyMemory
	quota  *quota.Quota

	mu sync.Mutex
	// running are the calls of this edge that have a record, by id.
	running map[string]struct{}
}

// NewOutcomes opens the Outcomes of the bus for the edge of a caller.
func NewOutcomes(ctx context.Context, conn *bus.Conn, caller *edges.Caller, tasks Tasks) (*Outcomes, error) {
	bucket := conn.Bucket(bus.OutcomesBucket)
	return &Outcomes{bucket: bucket, caller: caller, tasks: tasks, now: time.Now, quota: quota.New("idempotency keys", maxKeysOfPayer, maxKeyBytes), running: map[string]struct{}{}}, nil
}

// errTaken ends a call whose key another one took before it began.
var errTaken = errors.New("another call with the key has begun")

// Once implements Deduplicator.
func (o *Outcomes) Once(ctx context.Context, c *Call, run func(context.Context) (*Answer, error)) (*Answer, error) {
	at := hex.EncodeToString(digest(c.Principal.ID(), c.IdempotencyKey))
	same := digest([]byte(c.Method), []byte(c.Name), c.Arguments)
	earlier, revision, err := o.look(ctx, at)
	if err != nil {
		return nil, err
	}
	if earlier == nil {
		if earlier, revision, err = o.recall(ctx, at); err != nil {
			return nil, err
		}
	}
	if earlier != nil {
		var again bool
		var answer *Answer
		if answer, revision, again, err = o.replay(ctx, c, at, same, earlier, revision); !again {
			return answer, err
		}
	}
	answer, err := o.first(ctx, c, at, same, revision, run)
	if !errors.Is(err, errTaken) {
		return answer, err
	}
	// Another call with the key began first. What it comes to is the answer.
	if earlier, revision, err = o.look(ctx, at); err != nil {
		return nil, err
	}
	if earlier == nil {
		return nil, underWay() // it has just ended without running
	}
	answer, _, again, err := o.replay(ctx, c, at, same, earlier, revision)
	if again {
		return nil, underWay()
	}
	return answer, err
}

// first runs a call. The record takes the place of the revision, 0 for none.
func (o *Outcomes) first(ctx context.Context, c *Call, at string, same []byte, revision uint64, run func(context.Context) (*Answer, error)) (*Answer, error) {
	record := &outcome{
		Digest: same, Edge: o.caller.Edge(), Service: c.Target.Service, Call: c.ID,
		Until: o.now().Add(timeLimit(c) + outcomeMargin).UTC(),
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	// By call, so that one who loses the key gives back what it took itself.
	if _, err := o.quota.Keep(c.Payer(), c.ID, len(raw)+len(at)+keyOverhead, storage.OutcomeTTL); err != nil {
		return nil, err
	}
	begun := false
	defer o.over(c.ID)
	c.permit = func(ctx context.Context, instance string) error {
		record.Instance = instance
		// Not the client's time: a record of which nobody knows whether it was made
		// would stay when the client leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTime)
		defer cancel()
		var now uint64
		var err error
		if begun { // the instance before did not begin
			now, err = o.put(ctx, at, record, revision)
		} else {
			now, err = o.begin(ctx, at, record, revision)
		}
		if err == nil {
			o.memory.keep(at, record, o.now())
			begun, revision = true, now
		}
		return err
	}
	answer, err := run(ctx)
	c.permit = nil
	if !begun {
		o.quota.Release(c.Payer(), c.ID)
		return answer, err
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	switch record.take(answer, err) {
	case free:
		// When this fails, the instance knows that nothing came of it.
		o.memory.forget(at, c.ID)
		o.quota.Release(c.Payer(), c.ID)
		_ = o.bucket.DeleteAt(after, at, revision)
	case done:
		// When this cannot be written, the instance still knows, for a while.
		o.memory.keep(at, record, o.now())
		size := len(record.Result) + len(record.Meta) + len(raw) + len(at) + keyOverhead
		if _, full := o.quota.Keep(c.Payer(), c.ID, size, storage.OutcomeTTL); full != nil || !o.quota.Room(c.Payer(), resultsPart) {
			if record.Result != nil {
				record.Result, record.Meta, record.Ran = nil, nil, true
			}
			_, _ = o.quota.Keep(c.Payer(), c.ID, len(raw)+len(at)+keyOverhead, storage.OutcomeTTL)
		}
		if _, err := o.put(after, at, record, revision); errors.Is(err, errTaken) {
			o.memory.forget(at, c.ID)
			o.quota.Release(c.Payer(), c.ID)
		}
	case goesOn:
	}
	return answer, err
}

// begin makes the record of a call that is about to run, and returns its
// revision. Its error has cause errTaken when another call has the key.
func (o *Outcomes) begin(ctx context.Context, at string, record *outcome, revision uint64) (uint64, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return 0, err
	}
	o.mu.Lock()
	o.running[record.Call] = struct{}{}
	o.mu.Unlock()
	made, err := o.bucket.Replace(ctx, at, raw, revision)
	if made != 0 {
		return made, nil
	}
	// Another one's, or the acknowledgement was lost. A record that is made later
	// than this looks does no harm: the instance knows that the call did not begin.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	there, revision, looked := o.look(ctx, at)
	if looked == nil && there != nil && there.Call == record.Call {
		return revision, nil
	}
	if err == nil || looked == nil && there != nil {
		return 0, taken()
	}
	return 0, err
}

func taken() error {
	return fault.New(fault.Conflict, "another call with this idempotency key has begun; ask again with the same key").Because(errTaken)
}

func (o *Outcomes) over(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.running, call)
}

func (o *Outcomes) look(ctx context.Context, at string) (*outcome, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	raw, revision, err := o.bucket.Look(ctx, at)
	if err != nil || raw == nil {
		return nil, 0, err
	}
	r := &outcome{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, 0, err
	}
	return r, revision, nil
}

// put writes a record in place of an earlier one of the same call, and returns
// its revision. Its error has cause errTaken when another call has the key: one
// that was told that this one did not begin.
func (o *Outcomes) put(ctx context.Context, at string, record *outcome, revision uint64) (uint64, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return 0, err
	}
	for {
		now, err := o.bucket.Replace(ctx, at, raw, revision)
		if now != 0 || err != nil {
			return now, err
		}
		// Another edge may have written what the instance told it; or the bucket was
		// lost.
		var there *outcome
		if there, revision, err = o.look(ctx, at); err != nil {
			return 0, err
		}
		if there != nil && there.Call != record.Call {
			return 0, taken()
		}
	}
}

func sameCall(r *outcome, digest []byte) bool { return bytes.Equal(r.Digest, digest) }
