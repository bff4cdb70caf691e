package gateway

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// OnBus are the Approvals in the bus's approvals bucket, which outlive the edge
// and are the same for all.
type OnBus struct{ bucket *bus.Bucket }

// NewApprovals opens the Approvals of the bus.
func NewApprovals(ctx context.Context, conn *bus.Conn) (*OnBus, error) {
	bucket, err := conn.Bucket(ctx, bus.ApprovalsBucket)
	if err != nil {
		return nil, err
	}
	return &OnBus{bucket}, nil
}

// Keys: a held call, and a name that was used.
func heldKey(id string) string   { return "held." + id }
func usedKey(name string) string { return "used." + name }

// Hold implements Approvals.
func (o *OnBus) Hold(ctx context.Context, held *HeldCall) error {
	raw, err := json.Marshal(held)
	if err != nil {
		return err
	}
	return o.bucket.Put(ctx, heldKey(held.ID), raw)
}

// Take implements Approvals.
func (o *OnBus) Take(ctx context.Context, id string) (*HeldCall, error) {
	unknown := fault.New(fault.UnknownApproval, "no such approval, or it is over")
	if len(id) != 26 || bus.ValidName(id) != nil {
		return nil, unknown
	}
	held := &HeldCall{ID: id}
	taken := errors.New("taken")
	var raw []byte
	err := o.bucket.Change(ctx, heldKey(id), func(value []byte) ([]byte, error) {
		if len(value) == 0 {
			return nil, taken
		}
		raw = value
		return nil, nil
	})
	switch {
	case errors.Is(err, bus.ErrNoKey), errors.Is(err, taken):
		return nil, unknown
	case err != nil:
		return nil, err
	}
	return held, json.Unmarshal(raw, held)
}

// Use implements Approvals.
func (o *OnBus) Use(ctx context.Context, name string) (bool, error) {
	return o.bucket.Create(ctx, usedKey(name), []byte("1"))
}
