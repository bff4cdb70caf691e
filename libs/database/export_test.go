package database

import (
	"context"
	"errors"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// SetClock makes keys take the time from a function.
func (k *Keys) SetClock(now func() time.Time) { k.now = now }

// Bounds of keys.
const (
	MaxAnswer  = maxAnswer
	SweepEvery = sweepEvery
)

// Lossy is a database that does not answer some commits. For each write, beginning with the first,
// Commits says whether it is nevertheless made.
type Lossy struct {
	Database
	Commits []bool
}

// Write implements Database.
func (l *Lossy) Write(ctx context.Context, f func(context.Context, Tx) error) error {
	if len(l.Commits) == 0 {
		return l.Database.Write(ctx, f)
	}
	commits := l.Commits[0]
	l.Commits = l.Commits[1:]
	errLost := errors.New("the connection is gone")
	err := l.Database.Write(ctx, func(ctx context.Context, tx Tx) error {
		if err := f(ctx, tx); err != nil || commits {
			return err
		}
		return errLost
	})
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	return fault.New(fault.Unavailable, "the database was lost").Ran(fault.Unknown).Because(doubt{errLost})
}

// Lost and InDoubt classify an error of Postgres.
func Lost(err error) bool    { return lost(err) }
func InDoubt(err error) bool { return errors.As(inDoubt(err), new(doubt)) }
