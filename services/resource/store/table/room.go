package table

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Limits limit the resources of one tenant; zero means unlimited. Several processes on one database
// may exceed them by their writes within recount.
type Limits struct {
	// Bytes counts contents, names, descriptions and all other data of the resources.
	Resources, Bytes int64
	// Keys limits the idempotency keys of writes; see database.KeyLimits.
	Keys database.KeyLimits
}

const (
	// recount is how long a count is used, with this process's own writes added.
	recount = 10 * time.Second
	// maxCounted bounds the tenants whose counts are remembered.
	maxCounted = 4096
)

// room counts the resources of tenants.
type room struct {
	limits Limits

	mu    sync.Mutex
	kept  map[string]*kept
	clock func() time.Time
}

// bytesOf is the size that a resource counts with; sizes is the SQL expression for all resources of
// a tenant.
func bytesOf(r store.Resource, annotations string) int64 {
	return r.Size + int64(len(r.URI)+len(r.Name)+len(r.Title)+len(r.Description)+len(r.MIMEType)+len(annotations))
}

const sizes = `size + octet_length(uri) + octet_length(name) + octet_length(title) + octet_length(description) + octet_length(mime_type) + octet_length(annotations)`

type kept struct {
	resources, bytes int64
	counted          time.Time
}

// take checks the limits for the additions of a write, in the write's transaction. A write that
// makes a tenant's share smaller is always allowed.
func (r *room) take(ctx context.Context, tx database.Tx, tenant string, resources, bytes int64) error {
	if r.limits.Resources == 0 && r.limits.Bytes == 0 || resources == 0 && bytes == 0 {
		return nil
	}
	if known, err := r.add(tenant, resources, bytes); known {
		return err
	}
	// The count already includes this write.
	now := &kept{resources: -resources, bytes: -bytes, counted: r.clock()}
	var there, size int64
	if _, err := database.One(ctx, tx, `SELECT count(*), CAST(coalesce(sum(`+sizes+`), 0) AS bigint) FROM resource WHERE tenant = $1`,
		[]any{tenant}, &there, &size); err != nil {
		return err
	}
	now.resources, now.bytes = now.resources+there, now.bytes+size
	r.mu.Lock()
	r.kept = with(r.kept, tenant, now)
	r.mu.Unlock()
	_, err := r.add(tenant, resources, bytes)
	return err
}

// with returns the counts with a tenant's added, within the limit of remembered tenants.
func with(all map[string]*kept, tenant string, now *kept) map[string]*kept {
	if len(all) >= maxCounted || all == nil {
		all = map[string]*kept{}
	}
	all[tenant] = now
	return all
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
