package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// tries is how often a transaction is run that lost against another.
const tries = 4

// probeEvery is how often one call tries a database that is away; the others
// fail at once.
const probeEvery = time.Second

// gate is closed while the database is away.
type gate struct {
	mu     sync.Mutex
	closed bool
	next   time.Time // when the next call may try
}

// enter returns how long to wait; 0 lets the call try.
func (g *gate) enter() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.closed {
		return 0
	}
	if wait := g.next.Sub(now); wait > 0 {
		return wait
	}
	g.next = now.Add(probeEvery)
	return 0
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !open && !g.closed {
		g.next = time.Now().Add(probeEvery)
	}
	g.closed = !open
}

// connect returns a connection that has run a first statement, if any.
func (e *engine) connect(ctx context.Context, first string) (*pgxpool.Conn, error) {
	if wait := e.gate.enter(); wait > 0 {
		return nil, unavailable(wait, errors.New("the database was away a moment ago"))
	}
	bounded, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for {
		conn, err := e.pool.Acquire(bounded)
		if err == nil && first != "" {
			if _, err = conn.Exec(bounded, first); err != nil {
				conn.Release()
			}
		}
		switch {
		case err == nil:
			e.gate.set(true)
			return conn, nil
		case ctx.Err() != nil:
			return nil, err
		case bounded.Err() == nil && lost(err) && e.pool.Stat().IdleConns() > 0:
			e.pool.Reset() // others are as old as this one
		case bounded.Err() != nil && e.pool.Stat().AcquiredConns() >= e.pool.Stat().MaxConns():
			return nil, unavailable(connectTime, err) // busy, not away
		default:
			e.gate.set(false)
			return nil, unavailable(probeEvery, err)
		}
	}
}

// bounded runs a call within workTime, and makes its error that of a store.
func (e *engine) bounded(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	return e.fail(ctx, f(bounded))
}

var errRolledBack = errors.New("the transaction was rolled back")

// doubt marks a commit whose outcome nobody heard of.
type doubt struct{ error }

func (d doubt) Unwrap() error { return d.error }

func inDoubt(err error) error {
	var said *pgconn.PgError
	if err == nil || errors.As(err, &said) && said.Severity == "ERROR" {
		return err
	}
	return doubt{err}
}

// fail makes an error of Postgres that of a store.
func (e *engine) fail(ctx context.Context, err error) error {
	var known *fault.Error
	var said *pgconn.PgError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, new(doubt)):
		return unavailable(probeEvery, err).Ran(fault.Unknown)
	case ctx.Err() != nil:
		return err
	case errors.As(err, &said) && !temporary(said.Code):
		return err // a defect
	}
	return unavailable(probeEvery, err)
}

// temporary reports whether a SQLSTATE says something about the server and not
// about the statement: connections, transactions that lost, resources,
// operators, the system, and a server that is read-only.
func temporary(code string) bool {
	for _, class := range []string{"08", "25", "40", "53", "55", "57", "58"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// repeatable reports whether a transaction had no effect and may have one in
// another attempt: serialization failures, deadlocks, locks not had in time.
func repeatable(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, new(doubt)) || !errors.As(err, &said) {
		return false
	}
	return said.Code == "40001" || said.Code == "40P01" || said.Code == "55P03"
}

// lost reports whether the connection went, rather than the server refused.
func lost(err error) bool {
	var known *fault.Error
	var said *pgconn.PgError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &said):
		return said.Severity == "FATAL"
	}
	return true
}

// pause waits some milliseconds, longer each time; false when ctx ended.
func pause(ctx context.Context, try int) bool {
	select {
	case <-time.After(time.Duration(try) * time.Duration(5+rand.IntN(20)) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

func unavailable(wait time.Duration, err error) *fault.Error {
	f := fault.New(fault.Unavailable, "the database of resources does not answer; try again shortly").Because(err)
	f.RetryAfter = wait
	return f
}
