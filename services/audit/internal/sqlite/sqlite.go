// Package sqlite keeps the audit trail in a file.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

//go:embed migrations
var migrations embed.FS

// Store is a trail.Store. Every transaction that writes is the only one.
type Store struct{ db *sql.DB }

// Open opens a file, which is made if it is not there, and brings its schema up
// to date.
func Open(ctx context.Context, file string) (*Store, error) {
	db, err := database.OpenSQLite(ctx, file)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = database.MigrateSQLite(ctx, db, "audit", files)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{db}, nil
}

// Close implements trail.Store.
func (s *Store) Close() { _ = s.db.Close() }

func parameter(int) string { return "?" }

var columns = strings.Join(trail.Columns, ", ")

// Append implements trail.Store.
func (s *Store) Append(ctx context.Context, events []trail.Event) (added int, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		added = 0
		known, err := tx.PrepareContext(ctx, "SELECT EXISTS (SELECT 1 FROM audit_event WHERE id = ? AND edge = ?)")
		if err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, "INSERT INTO audit_event ("+columns+") VALUES (?"+strings.Repeat(", ?", len(trail.Columns)-1)+")")
		if err != nil {
			return err
		}
		chains := map[string]*trail.Chain{}
		for _, e := range events {
			var there bool
			if err := known.QueryRowContext(ctx, e.ID, e.Edge).Scan(&there); err != nil {
				return err
			}
			if there {
				continue
			}
			c := chains[e.Tenant]
			if c == nil {
				if c, err = end(ctx, tx, e.Tenant); err != nil {
					return err
				}
				chains[e.Tenant] = c
			}
			r := c.Extend([]trail.Event{e})[0]
			if _, err := insert.ExecContext(ctx, r.Values()...); err != nil {
				return err
			}
			added++
		}
		for _, c := range chains {
			if _, err := tx.ExecContext(ctx, `INSERT INTO audit_chain (tenant, seq, hash) VALUES (?, ?, ?)
				ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`, c.Tenant, c.Seq, c.Hash.Blob()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// end is where a chain ends, or would begin.
func end(ctx context.Context, tx *sql.Tx, tenant string) (*trail.Chain, error) {
	c := &trail.Chain{Tenant: tenant, Hash: trail.Genesis(tenant)}
	err := tx.QueryRowContext(ctx, "SELECT seq, hash FROM audit_chain WHERE tenant = ?", tenant).Scan(&c.Seq, (*[]byte)(&c.Hash))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, err
}

// tx runs f in a transaction that holds the lock for writing.
func (s *Store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err = f(tx); err == nil {
		err = tx.Commit()
	}
	if err == nil {
		return nil
	}
	_ = tx.Rollback() // over already, if Commit failed
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlitelib.SQLITE_CONSTRAINT, sqlitelib.SQLITE_TOOBIG, sqlitelib.SQLITE_MISMATCH:
			return fmt.Errorf("%w: %w", trail.ErrRejected, err)
		}
	}
	return err
}

// collect scans all rows of a query.
func collect[V any](rows *sql.Rows, err error, scan func(func(...any) error) (V, error)) ([]V, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []V
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

func (s *Store) rows(ctx context.Context, where string, args ...any) ([]trail.Row, error) {
	found, err := s.db.QueryContext(ctx, "SELECT "+columns+" FROM audit_event "+where, args...)
	return collect(found, err, trail.ScanRow)
}
