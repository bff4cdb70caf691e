// Package postgres keeps the audit trail in Postgres.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

//go:embed migrations
var migrations embed.FS

// Store is a trail.Store. A chain has one writer at a time, which holds the lock
// on its row in audit_chain.
type Store struct{ pool *pgxpool.Pool }

// Open connects, waiting until ctx ends, and brings the schema up to date.
func Open(ctx context.Context, url string) (*Store, error) {
	pool, err := database.OpenPostgres(ctx, url, "audit")
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = database.MigratePostgres(ctx, pool, "audit", files)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &Store{pool}, nil
}

// Close implements trail.Store.
func (s *Store) Close() { s.pool.Close() }

func parameter(n int) string { return "$" + strconv.Itoa(n) }

var selectRows = "SELECT " + strings.Join(trail.Columns, ", ") + " FROM audit_event "

// Append implements trail.Store.
func (s *Store) Append(ctx context.Context, events []trail.Event) (added int, err error) {
	byTenant := map[string][]trail.Event{}
	var tenants []string
	ids := make([]string, len(events))
	for i, e := range events {
		if byTenant[e.Tenant] == nil {
			tenants = append(tenants, e.Tenant)
		}
		byTenant[e.Tenant] = append(byTenant[e.Tenant], e)
		ids[i] = e.ID
	}
	slices.Sort(tenants) // two writers take the locks in the same order
	err = s.tx(ctx, func(tx pgx.Tx) error {
		chains, err := lock(ctx, tx, tenants)
		if err != nil {
			return err
		}
		// Under the locks: what another writer adds is seen here.
		known, err := knownIDs(ctx, tx, ids)
		if err != nil {
			return err
		}
		var rows []trail.Row
		for i := range chains {
			c := &chains[i]
			fresh := slices.DeleteFunc(byTenant[c.Tenant], func(e trail.Event) bool {
				was := known[eventKey{e.ID, e.Edge}]
				known[eventKey{e.ID, e.Edge}] = true
				return was
			})
			rows = append(rows, c.Extend(fresh)...)
		}
		if added = len(rows); added == 0 {
			return nil
		}
		return write(ctx, tx, rows, chains)
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// eventKey names an event: edges do not speak for each other.
type eventKey struct{ ID, Edge string }

func knownIDs(ctx context.Context, tx pgx.Tx, ids []string) (map[eventKey]bool, error) {
	found, err := tx.Query(ctx, "SELECT id, edge FROM audit_event WHERE id = ANY($1)", ids)
	if err != nil {
		return nil, err
	}
	known := map[eventKey]bool{}
	list, err := pgx.CollectRows(found, pgx.RowToStructByPos[eventKey])
	for _, id := range list {
		known[id] = true
	}
	return known, err
}

// lock locks the chains of tenants, in that order, and returns their ends.
func lock(ctx context.Context, tx pgx.Tx, tenants []string) ([]trail.Chain, error) {
	const heads = "SELECT tenant, seq, hash FROM audit_chain WHERE tenant = ANY($1) ORDER BY tenant COLLATE \"C\" FOR UPDATE"
	chains, err := collectChains(tx.Query(ctx, heads, tenants))
	if err != nil || len(chains) == len(tenants) {
		return chains, err
	}
	for _, tenant := range tenants {
		if _, err := tx.Exec(ctx, "INSERT INTO audit_chain (tenant, seq, hash) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING", tenant, trail.Genesis(tenant)); err != nil {
			return nil, err
		}
	}
	return collectChains(tx.Query(ctx, heads, tenants))
}

func collectChains(rows pgx.Rows, err error) ([]trail.Chain, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (trail.Chain, error) { return trail.ScanChain(r.Scan) })
}

func write(ctx context.Context, tx pgx.Tx, rows []trail.Row, chains []trail.Chain) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"audit_event"}, trail.Columns, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		return rows[i].Values(), nil
	}))
	if err != nil {
		return err
	}
	heads := &pgx.Batch{}
	for _, c := range chains {
		heads.Queue("UPDATE audit_chain SET seq = $2, hash = $3 WHERE tenant = $1", c.Tenant, c.Seq, c.Hash.Blob())
	}
	return tx.SendBatch(ctx, heads).Close()
}

// tx runs f in a transaction.
func (s *Store) tx(ctx context.Context, f func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, f)
	var p *pgconn.PgError
	// Classes 22, 23 and 54: data exceptions, violated constraints, and limits,
	// such as that of what an index takes.
	if errors.As(err, &p) && slices.Contains([]string{"22", "23", "54"}, p.Code[:2]) {
		return fmt.Errorf("%w: %w", trail.ErrRejected, err)
	}
	return err
}

func (s *Store) rows(ctx context.Context, where string, args ...any) ([]trail.Row, error) {
	found, err := s.pool.Query(ctx, selectRows+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(r pgx.CollectableRow) (trail.Row, error) { return trail.ScanRow(r.Scan) })
}
