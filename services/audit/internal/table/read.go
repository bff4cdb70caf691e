package table

import (
	"context"
	"strings"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// read runs one query outside of a transaction.
func read[V any](ctx context.Context, t *Table, scan func(func(...any) error) (V, error), statement string, args ...any) (all []V, err error) {
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		all, err = database.All(ctx, tx, scan, statement, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

var selectRows = "SELECT " + strings.Join(trail.Columns, ", ") + " FROM audit_event "

const selectCheckpoints = "SELECT " + trail.CheckpointColumns + " FROM audit_checkpoint "

// List implements trail.Store.
func (t *Table) List(ctx context.Context, f trail.Filter) ([]trail.Row, string, error) {
	where, args, err := f.SQL(parameter)
	if err != nil {
		return nil, "", err
	}
	args = append(args, f.Page()+1)
	rows, err := read(ctx, t, trail.ScanRow, selectRows+"WHERE "+where+" ORDER BY time DESC, id DESC, edge DESC LIMIT "+parameter(len(args)), args...)
	if err != nil {
		return nil, "", err
	}
	rows, next := f.Next(rows)
	return rows, next, nil
}

// Show implements trail.Store.
func (t *Table) Show(ctx context.Context, id string) ([]trail.Row, error) {
	return read(ctx, t, trail.ScanRow, selectRows+"WHERE id IN ($1, $2, $3, $4) ORDER BY id, edge", id, id+"-1", id+"-2", id+"-3")
}

// Rows implements trail.Store.
func (t *Table) Rows(ctx context.Context, tenant string, after int64, limit int) ([]trail.Row, error) {
	return read(ctx, t, trail.ScanRow, selectRows+"WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3", tenant, after, limit)
}

// Chains implements trail.Store.
func (t *Table) Chains(ctx context.Context) (all []trail.Chain, err error) {
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		all, err = chains(ctx, tx, "")
		return err
	})
	return all, err
}

// Others implements trail.Store. It reads the ends of chains, not the rows.
func (t *Table) Others(ctx context.Context, tenant string) (n int64, err error) {
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		_, err := database.One(ctx, tx, `SELECT CAST(coalesce(sum(c.seq - (
				SELECT coalesce(max(p.seq), 0) FROM audit_checkpoint AS p WHERE p.tenant = c.tenant AND p.pruned)), 0) AS bigint)
			FROM audit_chain AS c WHERE c.tenant <> $1`, []any{tenant}, &n)
		return err
	})
	return n, err
}

// Unchained implements trail.Store. It looks each tenant up in the index, and does not read the rows.
func (t *Table) Unchained(ctx context.Context) ([]string, error) {
	return read(ctx, t, func(scan func(...any) error) (tenant string, err error) {
		err = scan(&tenant)
		return tenant, err
	}, `WITH RECURSIVE there (tenant) AS (
			SELECT (SELECT tenant FROM audit_event ORDER BY tenant LIMIT 1)
			UNION ALL SELECT (SELECT e.tenant FROM audit_event AS e WHERE e.tenant > there.tenant ORDER BY e.tenant LIMIT 1) FROM there WHERE there.tenant IS NOT NULL)
		SELECT tenant FROM there WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audit_chain AS c WHERE c.tenant = there.tenant)`)
}

// Checkpoints implements trail.Store.
func (t *Table) Checkpoints(ctx context.Context, tenant string, after int64, limit int) ([]trail.Checkpoint, error) {
	return read(ctx, t, trail.ScanCheckpoint, selectCheckpoints+"WHERE tenant = $1 AND seq > $2 AND NOT pruned ORDER BY seq LIMIT $3", tenant, after, limit)
}

// Pruned implements trail.Store.
func (t *Table) Pruned(ctx context.Context, tenant string) (*trail.Checkpoint, error) {
	all, err := read(ctx, t, trail.ScanCheckpoint, selectCheckpoints+"WHERE tenant = $1 AND pruned ORDER BY seq DESC LIMIT 1", tenant)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}
