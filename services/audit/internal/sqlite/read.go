package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// List implements trail.Store.
func (s *Store) List(ctx context.Context, f trail.Filter) ([]trail.Row, string, error) {
	where, args, err := f.SQL(parameter)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.rows(ctx, "WHERE "+where+" ORDER BY time DESC, id DESC, edge DESC LIMIT ?", append(args, f.Page()+1)...)
	if err != nil {
		return nil, "", err
	}
	rows, next := f.Next(rows)
	return rows, next, nil
}

// Show implements trail.Store.
func (s *Store) Show(ctx context.Context, id string) ([]trail.Row, error) {
	return s.rows(ctx, "WHERE id IN (?, ?, ?, ?) ORDER BY id, edge", id, id+"-1", id+"-2", id+"-3")
}

// Rows implements trail.Store.
func (s *Store) Rows(ctx context.Context, tenant string, after int64, limit int) ([]trail.Row, error) {
	return s.rows(ctx, "WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?", tenant, after, limit)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func chains(ctx context.Context, q querier, where string) ([]trail.Chain, error) {
	rows, err := q.QueryContext(ctx, "SELECT tenant, seq, hash FROM audit_chain AS c "+where+" ORDER BY tenant")
	return collect(rows, err, trail.ScanChain)
}

// Chains implements trail.Store.
func (s *Store) Chains(ctx context.Context) ([]trail.Chain, error) { return chains(ctx, s.db, "") }

func (s *Store) checkpoints(ctx context.Context, where string, args ...any) ([]trail.Checkpoint, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+trail.CheckpointColumns+" FROM audit_checkpoint "+where, args...)
	return collect(rows, err, trail.ScanCheckpoint)
}

// Checkpoints implements trail.Store.
func (s *Store) Checkpoints(ctx context.Context, tenant string, after int64, limit int) ([]trail.Checkpoint, error) {
	return s.checkpoints(ctx, "WHERE tenant = ? AND seq > ? AND NOT pruned ORDER BY seq LIMIT ?", tenant, after, limit)
}

// Pruned implements trail.Store.
func (s *Store) Pruned(ctx context.Context, tenant string) (*trail.Checkpoint, error) {
	all, err := s.checkpoints(ctx, "WHERE tenant = ? AND pruned ORDER BY seq DESC LIMIT 1", tenant)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

func insertCheckpoint(ctx context.Context, tx *sql.Tx, c *trail.Checkpoint) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO audit_checkpoint ("+trail.CheckpointColumns+") VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", c.Values()...)
	return err
}

// Checkpoint implements trail.Store.
func (s *Store) Checkpoint(ctx context.Context, sign trail.Signer) (made []trail.Checkpoint, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		grown, err := chains(ctx, tx, "WHERE seq > (SELECT coalesce(max(seq), 0) FROM audit_checkpoint WHERE tenant = c.tenant)")
		if err != nil {
			return err
		}
		for _, chain := range grown {
			c := trail.Checkpoint{Tenant: chain.Tenant, Seq: chain.Seq, Hash: chain.Hash}
			sign(&c)
			if err := insertCheckpoint(ctx, tx, &c); err != nil {
				return err
			}
			made = append(made, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Prune implements trail.Store.
func (s *Store) Prune(ctx context.Context, before time.Time, sign trail.Signer) (int64, error) {
	chains, err := s.Chains(ctx)
	if err != nil {
		return 0, err
	}
	return trail.PruneInSteps(chains, func(tenant string) (int64, error) { return s.pruneSome(ctx, tenant, before, sign) })
}

func (s *Store) pruneSome(ctx context.Context, tenant string, before time.Time, sign trail.Signer) (n int64, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		c := trail.Checkpoint{Tenant: tenant, Pruned: true}
		// The last row of the oldest ones that are all too old.
		err := tx.QueryRowContext(ctx, `SELECT seq, hash FROM (
				SELECT seq, hash, min(time < ?) OVER (ORDER BY seq) AS old FROM (
					SELECT seq, hash, time FROM audit_event WHERE tenant = ? ORDER BY seq LIMIT ?))
			WHERE old ORDER BY seq DESC LIMIT 1`, before.UnixNano(), tenant, trail.PruneStep).Scan(&c.Seq, (*[]byte)(&c.Hash))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		sign(&c)
		if err := insertCheckpoint(ctx, tx, &c); err != nil {
			return err
		}
		gone, err := tx.ExecContext(ctx, "DELETE FROM audit_event WHERE tenant = ? AND seq <= ?", tenant, c.Seq)
		if err != nil {
			return err
		}
		if n, err = gone.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM audit_checkpoint WHERE tenant = ? AND (seq < ? OR seq = ? AND NOT pruned)", tenant, c.Seq, c.Seq)
		return err
	})
	return n, err
}
