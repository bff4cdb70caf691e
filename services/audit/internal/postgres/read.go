package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// List implements trail.Store.
func (s *Store) List(ctx context.Context, f trail.Filter) ([]trail.Row, string, error) {
	where, args, err := f.SQL(parameter)
	if err != nil {
		return nil, "", err
	}
	args = append(args, f.Page()+1)
	rows, err := s.rows(ctx, "WHERE "+where+" ORDER BY time DESC, id DESC, edge DESC LIMIT "+parameter(len(args)), args...)
	if err != nil {
		return nil, "", err
	}
	rows, next := f.Next(rows)
	return rows, next, nil
}

// Show implements trail.Store.
func (s *Store) Show(ctx context.Context, id string) ([]trail.Row, error) {
	return s.rows(ctx, "WHERE id IN ($1, $1 || '-1', $1 || '-2', $1 || '-3') ORDER BY id, edge", id)
}

// Rows implements trail.Store.
func (s *Store) Rows(ctx context.Context, tenant string, after int64, limit int) ([]trail.Row, error) {
	return s.rows(ctx, "WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3", tenant, after, limit)
}

// Chains implements trail.Store.
func (s *Store) Chains(ctx context.Context) ([]trail.Chain, error) {
	return collectChains(s.pool.Query(ctx, `SELECT tenant, seq, hash FROM audit_chain ORDER BY tenant COLLATE "C"`))
}

const selectCheckpoints = "SELECT " + trail.CheckpointColumns + " FROM audit_checkpoint "

func collectCheckpoints(rows pgx.Rows, err error) ([]trail.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (trail.Checkpoint, error) { return trail.ScanCheckpoint(r.Scan) })
}

// Checkpoints implements trail.Store.
func (s *Store) Checkpoints(ctx context.Context, tenant string, after int64, limit int) ([]trail.Checkpoint, error) {
	return collectCheckpoints(s.pool.Query(ctx, selectCheckpoints+"WHERE tenant = $1 AND seq > $2 AND NOT pruned ORDER BY seq LIMIT $3", tenant, after, limit))
}

// Pruned implements trail.Store.
func (s *Store) Pruned(ctx context.Context, tenant string) (*trail.Checkpoint, error) {
	all, err := collectCheckpoints(s.pool.Query(ctx, selectCheckpoints+"WHERE tenant = $1 AND pruned ORDER BY seq DESC LIMIT 1", tenant))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

func insertCheckpoint(ctx context.Context, tx pgx.Tx, c *trail.Checkpoint) error {
	_, err := tx.Exec(ctx, "INSERT INTO audit_checkpoint ("+trail.CheckpointColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING", c.Values()...)
	return err
}

// Checkpoint implements trail.Store.
func (s *Store) Checkpoint(ctx context.Context, sign trail.Signer) (made []trail.Checkpoint, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) error {
		grown, err := collectChains(tx.Query(ctx, `SELECT tenant, seq, hash FROM audit_chain AS c
			WHERE seq > (SELECT coalesce(max(seq), 0) FROM audit_checkpoint WHERE tenant = c.tenant) ORDER BY tenant COLLATE "C" FOR UPDATE OF c`))
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
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if _, err := lock(ctx, tx, []string{tenant}); err != nil {
			return err
		}
		c := trail.Checkpoint{Tenant: tenant, Pruned: true}
		// The last row of the oldest ones that are all too old.
		err := tx.QueryRow(ctx, `SELECT seq, hash FROM (
				SELECT seq, hash, bool_and(time < $2) OVER (ORDER BY seq) AS old FROM (
					SELECT seq, hash, time FROM audit_event WHERE tenant = $1 ORDER BY seq LIMIT $3) AS first) AS marked
			WHERE old ORDER BY seq DESC LIMIT 1`, tenant, before.UnixNano(), trail.PruneStep).Scan(&c.Seq, (*[]byte)(&c.Hash))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		sign(&c)
		if err := insertCheckpoint(ctx, tx, &c); err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, "DELETE FROM audit_event WHERE tenant = $1 AND seq <= $2", tenant, c.Seq)
		if err != nil {
			return err
		}
		n = gone.RowsAffected()
		_, err = tx.Exec(ctx, "DELETE FROM audit_checkpoint WHERE tenant = $1 AND (seq < $2 OR seq = $2 AND NOT pruned)", tenant, c.Seq)
		return err
	})
	return n, err
}
