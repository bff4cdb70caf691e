package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// OnBus are the Approvals in the bus's approvals bucket, which outlive the edge
// and are the same for all.
type OnBus struct {
	bucket *bus.Bucket
	quota  *quota.Quota
}

// maxHeldOfPayer and maxHeldBytes bound the calls that one payer has held at one
// edge.
const (
	maxHeldOfPayer = 256
	maxHeldBytes   = 4 << 20
)

// NewApprovals opens the Approvals of the bus.
func NewApprovals(ctx context.Context, conn *bus.Conn) (*OnBus, error) {
	bucket := conn.Bucket(bus.ApprovalsBucket)
	return &OnBus{bucket, quota.New("calls that wait for a person", maxHeldOfPayer, maxHeldBytes)}, nil
}

// Keys: a held call, which only its principal finds, and a name that was used.
func heldBy(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "held." + hex.EncodeToString(sum[:16]) + "."
}
func usedKey(name string) string { return "used." + name }

// heldKey is the key of a held call. The error has reason UnknownApproval for
// what no call was ever held as.
func heldKey(principal, id string) (string, error) {
	if len(id) != 26 || bus.ValidName(id) != nil {
		return "", unknownApproval()
	}
	return heldBy(principal) + id, nil
}

func unknownApproval() error {
	return fault.New(fault.UnknownApproval, "no such approval, or it is over")
}

func readHeld(id string, value []byte) (*HeldCall, error) {
	if len(value) == 0 { // taken
		return nil, unknownApproval()
	}
	held := &HeldCall{ID: id}
	return held, json.Unmarshal(value, held)
}

// Hold implements Approvals.
func (o *OnBus) Hold(ctx context.Context, held *HeldCall) error {
	raw, err := json.Marshal(held)
	if err != nil {
		return err
	}
	key, err := heldKey(held.Principal, held.ID)
	if err != nil {
		return err
	}
	over, err := o.quota.Keep(held.Payer, key, len(raw), ApprovalLife)
	for _, old := range over {
		// What nobody decided on in time; else it goes with the age of the bucket.
		_ = o.bucket.Delete(ctx, old)
	}
	if err != nil {
		return err
	}
	if err := o.bucket.Put(ctx, key, raw); err != nil {
		o.quota.Release(held.Payer, key)
		return err
	}
	return nil
}

// Held implements Approvals.
func (o *OnBus) Held(ctx context.Context, principal string, each func(*HeldCall)) error {
	prefix := heldBy(principal)
	var malformed error
	err := o.bucket.Each(ctx, prefix, func(key string, value []byte) {
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

// Look implements Approvals.
func (o *OnBus) Look(ctx context.Context, principal, id string) (*HeldCall, error) {
	key, err := heldKey(principal, id)
	if err != nil {
		return nil, err
	}
	value, err := o.bucket.Get(ctx, key)
	if errors.Is(err, bus.ErrNoKey) {
		return nil, unknownApproval()
	}
	if err != nil {
		return nil, err
	}
	return readHeld(id, value)
}

// Take implements Approvals.
func (o *OnBus) Take(ctx context.Context, principal, id string) (*HeldCall, error) {
	key, err := heldKey(principal, id)
	if err != nil {
		return nil, err
	}
	var held *HeldCall
	err = o.bucket.Change(ctx, key, func(value []byte) ([]byte, error) {
		held, err = readHeld(id, value)
		return nil, err
	})
	if errors.Is(err, bus.ErrNoKey) {
		return nil, unknownApproval()
	}
	if err == nil {
		o.quota.Release(held.Payer, key)
	}
	return held, err
}

// Return implements Approvals.
func (o *OnBus) Return(ctx context.Context, held *HeldCall) error {
	key, err := heldKey(held.Principal, held.ID)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(held)
	if err != nil {
		return err
	}
	// Take gave its room back, which may be somebody else's by now.
	if _, err := o.quota.Keep(held.Payer, key, len(raw), ApprovalLife); err != nil {
		return err
	}
	err = o.bucket.Change(ctx, key, func(value []byte) ([]byte, error) {
		if len(value) != 0 {
			return nil, fault.New(fault.Conflict, "the call is held already")
		}
		return raw, nil
	})
	if err != nil && !fault.Is(err, fault.Conflict) {
		o.quota.Release(held.Payer, key)
	}
	return err
}

// Unuse implements Approvals.
func (o *OnBus) Unuse(ctx context.Context, name string) error {
	return o.bucket.Delete(ctx, usedKey(name))
}

// Use implements Approvals.
func (o *OnBus) Use(ctx context.Context, name string) (bool, error) {
	return o.bucket.Create(ctx, usedKey(name), []byte("1"))
}
