package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/conc/iter"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// ApprovalLife is how long a person has to approve a call. No answer means no approval.
//
//limit:time a call is held for a person | `unknown_approval`
const ApprovalLife = 10 * time.Minute

// HeldCall is a call that waits for a person.
type HeldCall struct {
	ID        string `json:"-"`
	Principal string `json:"principal"`
	// Caller is the busv1.Identity of the caller. The call runs as this principal even if another
	// person approves it.
	Caller []byte `json:"caller,omitzero"`
	// For is the decider: Approvers or Asked; empty for the principal itself.
	For string `json:"for,omitzero"`
	// Account is the account whose share of the room it takes.
	Account string `json:"payer,omitzero"`
	Door    string `json:"door"`
	// Toolset is the toolset through which the call was made; empty for none.
	Toolset string `json:"toolset,omitzero"`
	Method  string `json:"method"`
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	// Tool is the digest of the name's target when the call was held.
	Tool []byte `json:"tool,omitzero"`
	// Arguments are the original bytes: the digest behind an idempotency key covers them.
	Arguments      []byte         `json:"arguments,omitzero"`
	Capabilities   jsontext.Value `json:"capabilities,omitzero"`
	IdempotencyKey string         `json:"idempotencyKey,omitzero"`
	Expires        time.Time      `json:"expires"`
	// Requests are the tool's questions, as MCP's inputRequests; empty for a call that waits for
	// a yes or no. State goes back to the tool with the answers.
	Requests jsontext.Value `json:"requests,omitzero"`
	State    []byte         `json:"state,omitzero"`
}

// Approvals are the calls that wait for a person, and the approvals that were used: a
// gateway.Approvals. They outlive the edge and are the same for all edges.
type Approvals struct {
	bucket *bus.Bucket
	// Quota bounds the calls that one account has held at one edge.
	Quota *quota.Quota
	// Traces bounds what remains of them, and of approvals that were used: a key without a value,
	// for as long as the bucket keeps it.
	Traces *quota.Quota
}

// Bounds of Quota and Traces.
const (
	//limit:party calls that are held for a person | `rate_limited`
	maxHeldOfAccount = 256
	//limit:party bytes of calls that are held for a person | `rate_limited`
	maxHeldBytes = 4 << 20
	//limit:party calls that a person decided on, in 2 h | `rate_limited`
	maxTracesOfAccount = 20_000
	// recountEvery is the shortest time between two recounts of an account's held calls.
	recountEvery = 5 * time.Second
	// traceSize is about the size of a trace in the bucket, in bytes.
	traceSize = 160
)

// NewApprovals opens the store.
func NewApprovals(conn *bus.Conn) *Approvals {
	return &Approvals{
		bucket: conn.Bucket(bus.ApprovalsBucket), Quota: quota.New("calls that wait for a person", maxHeldOfAccount, maxHeldBytes),
		Traces: quota.New("calls that a person decided on", maxTracesOfAccount, maxTracesOfAccount*traceSize),
	}
}

// Approvers is the decider for people that approve the calls of others in a tenant.
func Approvers(tenant string) string { return "approvers:" + tenant } // IDs of principals begin with a digit

// Asked is the decider for the caller itself, which answers its tool's questions. It uses the
// account, since nothing else tells anonymous callers apart.
func Asked(account string) string { return "asked:" + account }

// decider is the party that decides on the call.
func (h *HeldCall) decider() string { return cmp.Or(h.For, h.Principal) }

// Keys: a held call, which only its decider finds, and a name that was used.
func heldFor(decider string) string {
	sum := sha256.Sum256([]byte(decider))
	return "held." + hex.EncodeToString(sum[:16]) + "."
}
func usedKey(name string) string { return "used." + name }

// heldKey is the key of a held call. The error has reason UnknownApproval if no call can have
// that id.
func heldKey(decider, id string) (string, error) {
	if len(id) != 26 || bus.ValidName(id) != nil {
		return "", UnknownApproval()
	}
	return heldFor(decider) + id, nil
}

// UnknownApproval is the error for a held call that does not exist. It says that nothing ran,
// which is true as long as nobody decided.
func UnknownApproval() error {
	return fault.New(fault.UnknownApproval, "no such approval, or it is over")
}

func readHeld(id string, value []byte) (*HeldCall, error) {
	if len(value) == 0 { // taken: somebody decided, and it may have run
		return nil, fault.From(UnknownApproval()).Ran(fault.Unknown)
	}
	held := &HeldCall{ID: id}
	return held, json.Unmarshal(value, held)
}

// Hold implements gateway.Approvals.
func (a *Approvals) Hold(ctx context.Context, held *HeldCall) error {
	return a.keep(ctx, held, func(ctx context.Context, key string, raw []byte) error {
		if err := a.trace(held.Account, key); err != nil {
			return err
		}
		return a.bucket.Put(ctx, key, raw)
	})
}

// Return implements gateway.Approvals. Take gave the room of the call back, and another call may
// have that room now.
func (a *Approvals) Return(ctx context.Context, held *HeldCall) error {
	return a.keep(ctx, held, func(ctx context.Context, key string, raw []byte) error {
		return a.bucket.Change(ctx, key, func(value []byte) ([]byte, error) {
			if len(value) != 0 {
				return nil, fault.New(fault.Conflict, "the call is held already")
			}
			return raw, nil
		})
	})
}

// keep writes a call if its account has room for it.
func (a *Approvals) keep(ctx context.Context, held *HeldCall, write func(ctx context.Context, key string, raw []byte) error) error {
	raw, err := json.Marshal(held)
	if err != nil {
		return err
	}
	key, err := heldKey(held.decider(), held.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	over, err := a.Quota.Keep(held.Account, key, len(raw), ApprovalLife)
	if fault.Is(err, fault.RateLimited) && a.recount(ctx, held.Account) {
		_, err = a.Quota.Keep(held.Account, key, len(raw), ApprovalLife)
	}
	for _, old := range over {
		// Calls that nobody decided on in time; otherwise the age of the bucket removes them.
		_ = a.bucket.Delete(ctx, old)
	}
	if err == nil {
		err = write(ctx, key, raw)
	}
	if err != nil && !fault.Is(err, fault.Conflict) {
		a.Quota.Release(held.Account, key)
	}
	return err
}

// recount stops counting calls that were decided at other edges, of which this one does not hear.
// It reports whether there were any.
func (a *Approvals) recount(ctx context.Context, account string) bool {
	var released atomic.Bool
	looks := iter.Iterator[string]{MaxGoroutines: 16}
	looks.ForEach(a.Quota.Recount(account, recountEvery), func(key *string) {
		// A call that is not there may be about to be written.
		if value, err := a.bucket.Get(ctx, *key); err == nil && len(value) == 0 {
			a.Quota.Release(account, *key)
			released.Store(true)
		}
	})
	return released.Load()
}

// trace counts a key that is about to be in the bucket, whatever happens to its value.
func (a *Approvals) trace(account, key string) error {
	_, err := a.Traces.Keep(account, key, traceSize, storage.ApprovalTTL)
	return err
}

// Held implements gateway.Approvals.
func (a *Approvals) Held(ctx context.Context, decider string, each func(*HeldCall)) error {
	prefix := heldFor(decider)
	var malformed error
	err := a.bucket.Each(ctx, prefix, func(key string, value []byte) {
		held, err := readHeld(strings.TrimPrefix(key, prefix), value)
		switch {
		case err == nil:
			each(held)
		case !fault.Is(err, fault.UnknownApproval):
			malformed = err
		}
	})
	return errors.Join(err, malformed)
}

// Look implements gateway.Approvals.
func (a *Approvals) Look(ctx context.Context, decider, id string) (*HeldCall, error) {
	key, err := heldKey(decider, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	value, err := a.bucket.Get(ctx, key)
	if errors.Is(err, bus.ErrNoKey) {
		return nil, UnknownApproval()
	}
	if err != nil {
		return nil, err
	}
	return readHeld(id, value)
}

// Take implements gateway.Approvals.
func (a *Approvals) Take(ctx context.Context, decider, id string) (*HeldCall, error) {
	key, err := heldKey(decider, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	var held *HeldCall
	err = a.bucket.Change(ctx, key, func(value []byte) ([]byte, error) {
		held, err = readHeld(id, value)
		return nil, err // fault:approval-kept
	})
	if errors.Is(err, bus.ErrNoKey) {
		return nil, UnknownApproval()
	}
	if err == nil {
		a.Quota.Release(held.Account, key)
	}
	return held, err
}

// Unuse implements gateway.Approvals.
func (a *Approvals) Unuse(ctx context.Context, name string) error {
	return a.bucket.Delete(ctx, usedKey(name))
}

// Use implements gateway.Approvals.
func (a *Approvals) Use(ctx context.Context, account, name string) (bool, error) {
	if err := a.trace(account, usedKey(name)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return a.bucket.Create(ctx, usedKey(name), []byte("1"))
}
