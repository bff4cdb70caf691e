package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// Outcome is the record of a call that began with an idempotency key. At most one of Task, Large
// and Result is set; none is set while the call runs, or if nobody knows how it ended.
type Outcome struct {
	// Digest is the digest of the method, the name and the arguments.
	Digest []byte `json:"digest"`
	// Edge made the call, which has the id Call, and permitted Instance of Service to run it;
	// Instance is empty if the instance does not ask.
	Edge     string `json:"edge,omitzero"`
	Service  string `json:"service,omitzero"`
	Instance string `json:"instance,omitzero"`
	Call     string `json:"call,omitzero"`
	// Until is when the call is over in any case.
	Until time.Time `json:"until"`

	// Reason is why its edge does not know how it ended.
	Reason fault.Reason `json:"reason,omitzero"`
	Task   string       `json:"task,omitzero"`
	// Ran says that it ran, and that only its instance may still have the result.
	Ran bool `json:"ran,omitzero"`
	// Large says that it ran, and that its result is too large to keep, or is not kept any more.
	Large bool `json:"large,omitzero"`
	// Doubt says that an earlier call with the key may have run, and that this one repeats it
	// because its tool is idempotent.
	Doubt   bool           `json:"doubt,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Meta    jsontext.Value `json:"meta,omitzero"`
	IsError bool           `json:"isError,omitzero"`
}

// Settled reports whether the record says how the call ended.
func (o *Outcome) Settled() bool { return o.Task != "" || o.Large || o.Result != nil }

// forgetResult keeps only the fact that the call ran.
func (o *Outcome) forgetResult() {
	if o.Result != nil {
		o.Result, o.Meta, o.Ran = nil, nil, true
	}
}

const (
	// lookTime bounds the reading of a record: without it nothing runs.
	lookTime = 250 * time.Millisecond
	// keyOverhead is about the size of a record besides its value, in bytes.
	keyOverhead = 100
	// maxRemembered bounds the keys that an edge remembers itself.
	maxRemembered = 50_000
)

// Bounds of the records that one account has through one edge. Results are kept in three quarters
// of that room; beyond that, only the fact that the call ran.
const (
	//limit:party idempotency keys in 24 h | `rate_limited`
	maxKeysOfAccount = 50_000
	//limit:party idempotency keys with their results; beyond 12 MiB only that the calls ran is kept | `rate_limited`
	maxKeyBytes = 16 << 20
	resultsPart = 0.75
)

// Outcomes are the records of calls with idempotency keys, by the digest of principal and key;
// see ADR 0014. A call that never began leaves no record.
//
// An edge also remembers the keys whose calls it permitted, without their results, so that it
// does not make them again when the bucket is lost.
type Outcomes struct {
	bucket *bus.Bucket
	// Quota bounds the records that one account has through one edge.
	Quota *quota.Quota

	mu         sync.Mutex
	remembered map[string]remembered
	// ages has the remembered keys by age, and some that were forgotten.
	ages []string
}

type remembered struct {
	outcome Outcome
	at      time.Time
}

// NewOutcomes opens the store.
func NewOutcomes(conn *bus.Conn) *Outcomes {
	return &Outcomes{bucket: conn.Bucket(bus.OutcomesBucket), Quota: quota.New("idempotency keys", maxKeysOfAccount, maxKeyBytes), remembered: map[string]remembered{}}
}

// ErrTaken is the cause of the error for a key that another call has.
var ErrTaken = errors.New("another call with the key has begun")

func taken() error {
	return fault.New(fault.Conflict, "another call with this idempotency key has begun; ask again with the same key").Because(ErrTaken)
}

// Look returns the record of a key and its revision; nil for none.
func (s *Outcomes) Look(ctx context.Context, key string) (*Outcome, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	raw, revision, err := s.bucket.Look(ctx, key)
	if err != nil || raw == nil {
		return nil, 0, err
	}
	o := &Outcome{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, 0, err
	}
	return o, revision, nil
}

// Find is Look, but writes back a record that the bucket has lost and that this edge remembers.
func (s *Outcomes) Find(ctx context.Context, key string) (*Outcome, uint64, error) {
	o, revision, err := s.Look(ctx, key)
	if err != nil || o != nil {
		return o, revision, err
	}
	s.mu.Lock()
	was, known := s.remembered[key]
	s.mu.Unlock()
	if !known || time.Since(was.at) > storage.OutcomeTTL {
		return nil, 0, nil
	}
	raw, err := json.Marshal(&was.outcome)
	if err != nil {
		return nil, 0, err
	}
	again, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := s.bucket.Create(again, key, raw); err != nil {
		return nil, 0, err
	}
	return s.Look(again, key) // another edge may have made it
}

// Admit counts a record that is about to be made for its account. The error has reason
// RateLimited if there is no room.
func (s *Outcomes) Admit(account, key string, o *Outcome) error {
	size, err := size(key, o)
	if err != nil {
		return err
	}
	// By call, so that a call that loses the key gives back only its own room.
	_, err = s.Quota.Keep(account, o.Call, size, storage.OutcomeTTL)
	return err
}

func size(key string, o *Outcome) (int, error) {
	raw, err := json.Marshal(o)
	return len(raw) + len(key) + keyOverhead, err
}

// Begin makes the record of a call that is about to run, in place of a revision, 0 for none, and
// returns its own revision. The error has cause ErrTaken if another call has the key.
func (s *Outcomes) Begin(ctx context.Context, key string, o *Outcome, revision uint64) (uint64, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	made, err := s.bucket.Replace(ctx, key, raw, revision)
	if made == 0 {
		// It is another call's, or the acknowledgement was lost. If the record is made only after
		// this look, it does no harm: the instance knows that the call did not begin.
		there, now, looked := s.Look(context.WithoutCancel(ctx), key)
		switch {
		case looked == nil && there != nil && there.Call == o.Call:
			made = now
		case err == nil || looked == nil && there != nil:
			return 0, taken()
		default:
			return 0, err
		}
	}
	s.remember(key, o)
	return made, nil
}

// BeginAgain is Begin for a call whose record exists already: the instance before did not begin
// it.
func (s *Outcomes) BeginAgain(ctx context.Context, key string, o *Outcome, revision uint64) (uint64, error) {
	now, err := s.put(ctx, key, o, revision)
	if err == nil {
		s.remember(key, o)
	}
	return now, err
}

// Learn writes an instance's report about a call that another edge made. That edge may write the
// same.
func (s *Outcomes) Learn(ctx context.Context, key string, o *Outcome, revision uint64) {
	if raw, err := json.Marshal(o); err == nil {
		_, _ = s.bucket.Replace(ctx, key, raw, revision)
	}
}

// End writes how a call ended, with as much of its result as its account has room for. If that
// cannot be written, the instance still knows, for a while.
func (s *Outcomes) End(ctx context.Context, account, key string, o *Outcome, revision uint64) {
	s.remember(key, o)
	full, err := size(key, o)
	if err == nil {
		_, err = s.Quota.Keep(account, o.Call, full, storage.OutcomeTTL)
	}
	if err != nil || !s.Quota.Below(account, resultsPart) {
		o.forgetResult()
		_ = s.Admit(account, key, o)
	}
	if _, err := s.put(ctx, key, o, revision); errors.Is(err, ErrTaken) {
		s.forget(account, key, o)
	}
}

// Drop removes the record of a call that did not run after all. If that fails, the instance knows
// that nothing ran.
func (s *Outcomes) Drop(ctx context.Context, account, key string, o *Outcome, revision uint64) {
	s.forget(account, key, o)
	_ = s.bucket.DeleteAt(ctx, key, revision)
}

// Release gives back the room of a call that was admitted and did not begin.
func (s *Outcomes) Release(account string, o *Outcome) { s.Quota.Release(account, o.Call) }

// put writes a record in place of an earlier one of the same call, and returns its revision. Its
// error has cause ErrTaken if another call has the key: that call was told that this one did not
// begin.
func (s *Outcomes) put(ctx context.Context, key string, o *Outcome, revision uint64) (uint64, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	for {
		now, err := s.bucket.Replace(ctx, key, raw, revision)
		if now != 0 || err != nil {
			return now, err
		}
		// Another edge may have written the instance's report; or the bucket was lost.
		var there *Outcome
		if there, revision, err = s.Look(ctx, key); err != nil {
			return 0, err
		}
		if there != nil && there.Call != o.Call {
			return 0, taken()
		}
	}
}

// remember keeps what this edge itself knows of a key.
func (s *Outcomes) remember(key string, o *Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.remembered[key]; !known {
		s.ages = append(s.ages, key)
	}
	small := *o
	small.forgetResult()
	s.remembered[key] = remembered{small, time.Now()}
	for len(s.ages) > maxRemembered {
		delete(s.remembered, s.ages[0])
		s.ages = s.ages[1:]
	}
}

// forget forgets a key, unless it belongs to another call by now, and gives back the room of the
// call.
func (s *Outcomes) forget(account, key string, o *Outcome) {
	s.Release(account, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.remembered[key].outcome.Call == o.Call {
		delete(s.remembered, key)
	}
}
