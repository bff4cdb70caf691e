package database

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// statementTime limits one statement, so that a lock held elsewhere becomes an error and not a
	// hanging call.
	//limit:time one statement in Postgres, if the work of its call may take longer | `unavailable`
	statementTime = 10 * time.Second
	// poolSize is how many connections an instance has, unless its URL says
	// pool_max_conns.
	//limit:service connections of an instance to Postgres, unless its URL has `pool_max_conns` | calls wait
	poolSize = 8
	// busyTime is how long a call waits for a connection while other calls return theirs.
	busyTime = 2 * time.Second
	// tries is how often a transaction that lost against another one is run.
	tries = 4
)

// postgres is a pool of connections, which is not used while the server is away.
type postgres struct {
	pool    *pgxpool.Pool
	cfg     Config
	circuit *circuit
	lock    int64 // of Alone
}

// openPostgres opens a pool and waits for the server until ctx ends. Parameters in the URL, such as
// pool_max_conns, apply (pgxpool.ParseConfig).
func openPostgres(ctx context.Context, cfg Config) (Database, error) {
	parsed, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// Its text may hold the password.
		return nil, errors.New("the database URL is not one: use postgres://user:password@host:5432/name")
	}
	set := func(key, value string) {
		if _, own := parsed.ConnConfig.RuntimeParams[key]; !own {
			parsed.ConnConfig.RuntimeParams[key] = value
		}
	}
	set("application_name", "busbar "+cfg.Owner)
	set("statement_timeout", fmt.Sprint(statementTime.Milliseconds()))
	set("idle_in_transaction_session_timeout", fmt.Sprint(statementTime.Milliseconds()))
	if parsed.ConnConfig.ConnectTimeout == 0 {
		parsed.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	if !hasParameter(cfg.URL, "pool_max_conns") {
		parsed.MaxConns = poolSize
	}
	pool, err := pgxpool.NewWithConfig(ctx, parsed)
	if err != nil {
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	if err := answers(ctx, pool); err != nil {
		pool.Close()
		if refused(err) {
			return nil, fmt.Errorf("database %s refuses this service; check user, password, database and certificate authority in --database-url: %w", Redacted(cfg.URL), err)
		}
		return nil, fmt.Errorf("database %s does not answer; start Postgres, or check --database-url: %w", Redacted(cfg.URL), brief{err})
	}
	if cfg.Migrations != nil {
		if err := migratePostgres(ctx, pool, cfg); err != nil {
			pool.Close()
			return nil, err
		}
	}
	id := fnv.New64a()
	_, _ = id.Write([]byte("busbar alone " + cfg.Owner))
	return &postgres{pool: pool, cfg: cfg, circuit: newCircuit(pool), lock: int64(id.Sum64() >> 1)}, nil
}

// answers waits until the server accepts or refuses a connection, or ctx ends. Then it returns the
// error of the last attempt that was not cut short.
func answers(ctx context.Context, pool *pgxpool.Pool) (reason error) {
	for {
		err := pool.Ping(ctx)
		if err == nil || refused(err) {
			return err
		}
		if reason == nil || ctx.Err() == nil {
			reason = err
		}
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return reason
		}
	}
}

// Away hides the reason, which names the server, from readers of probes.
func (p *postgres) Away() error {
	if p.circuit.away() == nil {
		return nil
	}
	return errors.New("the database of " + p.cfg.Holds + " does not answer; calls that need it are refused until it does")
}

func (p *postgres) Close() {
	p.circuit.close()
	p.pool.Close()
}

func (p *postgres) ForUpdate() string { return " FOR UPDATE" }

func (p *postgres) Among(column string, n int) string {
	return column + " = ANY($" + strconv.Itoa(n) + ")"
}

// Seek begins the join with the values; OFFSET keeps the planner from reversing it. A plan made for
// a table without statistics, such as one that was empty a minute ago, would read the whole table,
// and stay until the table is analyzed.
func (p *postgres) Seek(table, column string, n int) string {
	return "unnest($" + strconv.Itoa(n) + "::text[]) AS sought(v) CROSS JOIN LATERAL (SELECT * FROM " + table + " WHERE " + column + " = sought.v OFFSET 0) AS found"
}

// bounded runs a call within its time limit.
func (p *postgres) bounded(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, p.cfg.Work)
	defer cancel()
	return p.cfg.fail(ctx, f(bounded))
}

// Write runs f in a transaction, up to four times.
func (p *postgres) Write(ctx context.Context, f func(context.Context, Tx) error) error {
	return p.bounded(ctx, func(ctx context.Context) error {
		for try := 1; ; try++ {
			err := p.transact(ctx, f)
			if !repeatable(err) || try == tries || !pause(ctx, try) {
				return err
			}
		}
	})
}

func (p *postgres) transact(ctx context.Context, f func(context.Context, Tx) error) error {
	conn, err := p.connect(ctx, "BEGIN")
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := f(ctx, postgresTx{conn}); err != nil {
		// The pool closes a connection that is still in a transaction.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Wait)
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
func (p *postgres) Read(ctx context.Context, f func(context.Context, Tx) error) error {
	return p.bounded(ctx, func(ctx context.Context) error {
		err := p.once(ctx, f)
		if !lost(err) {
			return err
		}
		// The connection was already dead. Nothing was written, so another one may answer.
		p.pool.Reset()
		return p.once(ctx, f)
	})
}

func (p *postgres) once(ctx context.Context, f func(context.Context, Tx) error) error {
	conn, err := p.connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Release()
	return f(ctx, postgresTx{conn})
}

// Alone holds a lock of the database while f runs. The lock ends with the connection.
func (p *postgres) Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	conn, err := p.connect(ctx, "")
	if err != nil {
		return false, p.cfg.fail(ctx, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", p.lock).Scan(&ran); err != nil || !ran {
		return false, p.cfg.fail(ctx, err)
	}
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Wait)
		defer cancel()
		if _, err := conn.Exec(free, "SELECT pg_advisory_unlock($1)", p.lock); err != nil {
			_ = conn.Conn().Close(free)
		}
	}()
	return true, f(ctx)
}

// connect returns a connection that has run a first statement, if any.
func (p *postgres) connect(ctx context.Context, first string) (*pgxpool.Conn, error) {
	for {
		if err := p.circuit.away(); err != nil {
			return nil, p.cfg.unavailable(retryAfter, err)
		}
		conn, err := p.acquire(ctx)
		if err == nil && first != "" {
			begin, cancel := context.WithTimeout(ctx, p.cfg.Wait)
			if _, err = conn.Exec(begin, first); err != nil {
				conn.Release()
			}
			cancel()
		}
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, errBusy):
			return nil, p.cfg.unavailable(p.cfg.Wait, err)
		case lost(err) && p.pool.Stat().IdleConns() > 0:
			p.pool.Reset() // others are as old as this one
		default:
			p.circuit.trip(err)
			return nil, p.cfg.unavailable(retryAfter, err)
		}
	}
}

var errBusy = errors.New("no connection is free")

// acquire waits for a connection: up to busyTime while connections are being returned, otherwise up
// to cfg.Wait.
func (p *postgres) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, max(busyTime, p.cfg.Wait))
	defer cancel()
	given := p.pool.Stat().AcquireCount()
	var turn *time.Timer
	turn = time.AfterFunc(time.Hour, func() {
		before := given
		if given = p.pool.Stat().AcquireCount(); given == before {
			cancel()
			return
		}
		turn.Reset(p.cfg.Wait)
	})
	turn.Reset(p.cfg.Wait)
	defer turn.Stop()
	conn, err := p.pool.Acquire(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil && p.pool.Stat().AcquiredConns() >= p.pool.Stat().MaxConns() {
		return nil, errBusy
	}
	return conn, err
}

// postgresTx is a connection as stores use it.
type postgresTx struct{ conn *pgxpool.Conn }

func (t postgresTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (t postgresTx) Query(ctx context.Context, statement string, args ...any) (Rows, error) {
	return t.conn.Query(ctx, statement, args...)
}

func (t postgresTx) Insert(ctx context.Context, table string, columns []string, n int, row func(i int) []any) error {
	_, err := t.conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i), nil }))
	return err
}
