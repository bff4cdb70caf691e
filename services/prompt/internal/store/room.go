package store

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// makeRoom enforces the limits of a tenant after a change in the same transaction. It
// drops the tenant's oldest versions if needed. A deletion is always allowed.
func (s *onSQL) makeRoom(ctx context.Context, tx database.Tx, tenant string, more bool) error {
	var prompts, size int64
	if _, err := database.One(ctx, tx, `SELECT CAST(coalesce(sum(1 - deleted), 0) AS bigint), CAST(coalesce(sum(size), 0) AS bigint)
		FROM prompt WHERE tenant = $1`, []any{tenant}, &prompts, &size); err != nil {
		return err
	}
	if more && s.limits.Prompts > 0 && prompts > s.limits.Prompts {
		return fault.New(fault.TooLarge, "the tenant has too many prompts, the limit is %d; delete some", s.limits.Prompts)
	}
	for s.limits.Bytes > 0 && size > s.limits.Bytes {
		dropped, err := dropOldest(ctx, tx, tenant, size-s.limits.Bytes)
		if err != nil {
			return err
		}
		if dropped == 0 && more {
			return fault.New(fault.TooLarge, "the tenant's prompts are too large, the limit is %d bytes; delete some", s.limits.Bytes)
		}
		if dropped == 0 {
			return nil
		}
		size -= dropped
	}
	return nil
}

// dropOldest drops old versions, never current ones, until their total size is enough. It
// drops a limited number at a time and returns their size in bytes.
func dropOldest(ctx context.Context, tx database.Tx, tenant string, enough int64) (dropped int64, err error) {
	type old struct {
		name          string
		version, size int64
	}
	all, err := database.All(ctx, tx, func(scan func(...any) error) (o old, err error) {
		err = scan(&o.name, &o.version, &o.size)
		return o, err
	}, `SELECT v.name, v.version, v.size FROM prompt_version v JOIN prompt p ON p.tenant = v.tenant AND p.name = v.name
		WHERE v.tenant = $1 AND v.version < p.version AND v.size > 0 ORDER BY v.made, v.name, v.version LIMIT 100`, tenant)
	if err != nil {
		return 0, err
	}
	names := map[string]bool{}
	for _, o := range all {
		if dropped >= enough {
			break
		}
		if _, err := tx.Exec(ctx, "DELETE FROM prompt_version WHERE tenant = $1 AND name = $2 AND version = $3", tenant, o.name, o.version); err != nil {
			return 0, err
		}
		dropped, names[o.name] = dropped+o.size, true
	}
	for name := range names {
		if err := count(ctx, tx, tenant, name); err != nil {
			return 0, err
		}
	}
	return dropped, nil
}
