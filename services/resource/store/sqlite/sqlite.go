// Package sqlite keeps resources in a file, for one process.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

//go:embed migrations
var files embed.FS

// Open opens the store in a file, which is made if it is not there, and brings
// its tables up to date. It refuses the tables of a later release.
func Open(ctx context.Context, file string) (*table.Table, error) {
	db, err := database.OpenSQLite(ctx, file)
	if err != nil {
		return nil, err
	}
	migrations, err := fs.Sub(files, "migrations")
	if err == nil {
		err = database.MigrateSQLite(ctx, db, "resource", migrations)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return table.New(&engine{db: db, writing: make(chan struct{}, 1)}), nil
}

// workTime bounds a call, beside the caller's own deadline.
const workTime = 5 * time.Second

// engine is the table.Database.
type engine struct {
	db *sql.DB
	// writing is held by the one writer there can be. Waiting for it here is
	// fair, and ends with the caller.
	writing  chan struct{}
	relaying sync.Mutex
}

func (e *engine) Close()            { _ = e.db.Close() }
func (e *engine) ForUpdate() string { return "" }

// Write runs f in a transaction, which locks the file from its begin on.
func (e *engine) Write(ctx context.Context, f func(context.Context, table.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	select {
	case e.writing <- struct{}{}:
		defer func() { <-e.writing }()
	case <-bounded.Done():
		return fail(ctx, bounded.Err())
	}
	t, err := e.db.BeginTx(bounded, nil)
	if err != nil {
		return fail(ctx, err)
	}
	if err := f(bounded, tx{t}); err != nil {
		_ = t.Rollback()
		return fail(ctx, err)
	}
	return fail(ctx, t.Commit())
}

// Read runs f beside writers.
func (e *engine) Read(ctx context.Context, f func(context.Context, table.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	return fail(ctx, f(bounded, tx{e.db}))
}

// Alone runs f if nobody else in this process does.
func (e *engine) Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	if !e.relaying.TryLock() {
		return false, nil
	}
	defer e.relaying.Unlock()
	return true, f(ctx)
}

// fail makes an error of SQLite that of a store.
func fail(ctx context.Context, err error) error {
	var known *fault.Error
	var said *driver.Error
	switch {
	case err == nil || errors.As(err, &known) || ctx.Err() != nil:
		return err
	case errors.As(err, &said):
		switch said.Code() & 0xff {
		case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_READONLY, codes.SQLITE_IOERR, codes.SQLITE_FULL, codes.SQLITE_CANTOPEN, codes.SQLITE_INTERRUPT:
		default:
			return err // a defect
		}
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sql.ErrConnDone):
		return err
	}
	f := fault.New(fault.Unavailable, "the database of resources does not answer; try again shortly").Because(err)
	f.RetryAfter = time.Second
	return f
}

// querier is what a database and a transaction have in common.
type querier interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

type tx struct{ q querier }

func (t tx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t tx) Query(ctx context.Context, statement string, args ...any) (table.Rows, error) {
	found, err := t.q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return rows{found}, nil
}

type rows struct{ *sql.Rows }

func (r rows) Close() { _ = r.Rows.Close() }
