// Package postgres keeps resources in Postgres, for any number of instances.
package postgres

import (
	"context"
	"embed"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

//go:embed migrations
var files embed.FS

// Open opens the store in the database of a URL, waiting for it until ctx ends,
// and brings its tables up to date. It refuses the tables of a later release.
func Open(ctx context.Context, url string) (*table.Table, error) {
	pool, err := database.OpenPostgres(ctx, url, "resource")
	if err != nil {
		return nil, err
	}
	migrations, err := fs.Sub(files, "migrations")
	if err == nil {
		err = database.MigratePostgres(ctx, pool, "resource", migrations)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return table.New(&engine{pool: pool}), nil
}

const (
	// connectTime is how long a call waits for a connection and a transaction;
	// until then nothing ran.
	connectTime = 250 * time.Millisecond
	// workTime bounds all of a call, beside the caller's own deadline.
	workTime = 5 * time.Second
	// relayLock is the advisory lock of who relays: "resource" in ASCII.
	relayLock = 0x7265736f75726365
)

// engine is the table.Database.
type engine struct {
	pool *pgxpool.Pool
	gate gate
}

func (e *engine) Close()            { e.pool.Close() }
func (e *engine) ForUpdate() string { return " FOR UPDATE" }

// Write runs f in a transaction, up to four times.
func (e *engine) Write(ctx context.Context, f func(context.Context, table.Tx) error) error {
	return e.bounded(ctx, func(ctx context.Context) error {
		for try := 1; ; try++ {
			err := e.transact(ctx, f)
			if !repeatable(err) || try == tries || !pause(ctx, try) {
				return err
			}
		}
	})
}

func (e *engine) transact(ctx context.Context, f func(context.Context, table.Tx) error) error {
	conn, err := e.connect(ctx, "BEGIN")
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := f(ctx, tx{conn}); err != nil {
		// A connection that is in a transaction still is closed by the pool.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
		defer cancel()
		_, _ = conn.Exec(rollback, "ROLLBACK")
		return err
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		return errRolledBack
	}
	return inDoubt(err)
}

// Read runs f on one connection.
func (e *engine) Read(ctx context.Context, f func(context.Context, table.Tx) error) error {
	return e.bounded(ctx, func(ctx context.Context) error {
		conn, err := e.connect(ctx, "")
		if err != nil {
			return err
		}
		defer conn.Release()
		err = f(ctx, tx{conn})
		if !lost(err) {
			return err
		}
		// It was dead since before. Nothing was written, so another may answer.
		e.pool.Reset()
		again, err := e.connect(ctx, "")
		if err != nil {
			return err
		}
		defer again.Release()
		return f(ctx, tx{again})
	})
}

// Alone holds a lock of the database for as long as f runs. It goes with the
// connection.
func (e *engine) Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	conn, err := e.connect(ctx, "")
	if err != nil {
		return false, e.fail(ctx, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(relayLock)).Scan(&ran); err != nil || !ran {
		return false, e.fail(ctx, err)
	}
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
		defer cancel()
		if _, err := conn.Exec(free, "SELECT pg_advisory_unlock($1)", int64(relayLock)); err != nil {
			_ = conn.Conn().Close(free)
		}
	}()
	return true, f(ctx)
}

// tx is a connection as the tables use it.
type tx struct{ conn *pgxpool.Conn }

func (t tx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (t tx) Query(ctx context.Context, statement string, args ...any) (table.Rows, error) {
	return t.conn.Query(ctx, statement, args...)
}

var _ table.Rows = pgx.Rows(nil)
