// Package table is a store.Store in the tables of a SQL database. The
// statements are those that Postgres and SQLite both understand; what differs
// is the Database.
package table

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Tx runs statements, whose parameters are $1, $2 and so on.
type Tx interface {
	// Exec returns how many rows a statement changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	Query(ctx context.Context, statement string, args ...any) (Rows, error)
}

// Rows is what a query found. Close it.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Database is one engine. Its errors are those of store.Store, apart from
// defects.
type Database interface {
	// Write runs f in a transaction and commits it if f returns nil. f may run
	// again after a failure that a repetition mends.
	Write(ctx context.Context, f func(context.Context, Tx) error) error
	// Read runs f, each statement by itself.
	Read(ctx context.Context, f func(context.Context, Tx) error) error
	// Alone runs f unless another process or goroutine runs something alone.
	Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error)
	// ForUpdate ends a SELECT whose row is to stay as it is until the commit.
	ForUpdate() string
	Close()
}

// Table is the store.Store in a Database.
type Table struct {
	db  Database
	now func() time.Time
}

// New makes a store of a database that has the tables.
func New(db Database) *Table { return &Table{db: db, now: time.Now} }

var _ store.Store = (*Table)(nil)

// Close closes the database.
func (t *Table) Close() { t.db.Close() }

// one scans the only row; found is false when there is none.
func one(rows Rows, err error, dest ...any) (found bool, _ error) {
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return false, rows.Err()
	}
	if err := rows.Scan(dest...); err != nil {
		return false, err
	}
	rows.Close()
	return true, rows.Err()
}
