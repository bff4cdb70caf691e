package table

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Limits bound what one tenant keeps; zero is no bound. Several processes on one
// database may exceed them by what they write within recount.
type Limits struct {
	Resources, Bytes int64
}

const (
	// recount is how long a count is believed, with this process's own writes added.
	recount = 10 * time.Second
	// maxCounted bounds the tenants whose counts are remembered.
	maxCounted = 4096
)

// room knows what tenants keep.
type room struct {
	limits Limits

	mu    sync.Mutex
	kept  map[string]*kept
	clock func() time.Time
}

type kept struct {
	resources, bytes int64
	counted          time.Time
}

// take makes room for what a write has added, in the write's transaction. What makes a
// tenant's share smaller is always let through.
func (r *room) take(ctx context.Context, tx database.Tx, tenant string, resources, bytes int64) error {
	if r.limits == (Limits{}) || resources == 0 && bytes == 0 {
		return nil
	}
	if known, err := r.add(tenant, resources, bytes); known {
		return err
	}
	// The write itself is counted already.
	now := &kept{resources: -resources, bytes: -bytes, counted: r.clock()}
	var there, size int64
	if _, err := database.One(ctx, tx, `SELECT count(*), CAST(coalesce(sum(size), 0) AS bigint) FROM resource WHERE tenant = $1`,
		[]any{tenant}, &there, &size); err != nil {
		return err
	}
	now.resources, now.bytes = now.resources+there, now.bytes+size
	r.mu.Lock()
	if len(r.kept) >= maxCounted || r.kept == nil {
		r.kept = map[string]*kept{}
	}
	r.kept[tenant] = now
	r.mu.Unlock()
	_, err := r.add(tenant, resources, bytes)
	return err
}

func (r *room) add(tenant string, resources, bytes int64) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.kept[tenant]
	if now == nil || r.clock().Sub(now.counted) > recount {
		return false, nil
	}
	switch {
	case resources > 0 && r.limits.Resources > 0 && now.resources+resources > r.limits.Resources:
		return true, fault.New(fault.TooLarge, "at most %d resources are kept for a tenant; delete some", r.limits.Resources)
	case bytes > 0 && r.limits.Bytes > 0 && now.bytes+bytes > r.limits.Bytes:
		return true, fault.New(fault.TooLarge, "at most %d MiB of resources are kept for a tenant; delete some", r.limits.Bytes>>20)
	}
	now.resources, now.bytes = now.resources+resources, now.bytes+bytes
	return true, nil
}
