// Package database is the one engine under the services that own data: Postgres
// for a fleet, SQLite in a file where nothing is configured. Both run the same
// transactions, bound how long a call takes, refuse at once while the database
// is away and say truthfully whether a write was made, so that an outage has
// one behaviour whichever service meets it. What is in a database is for the
// services to say: each has a store of its own on a Database, and one suite of
// tests that runs on both engines.
package database

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// Config says which database, and whose tables are in it.
type Config struct {
	// URL is the URL of a Postgres database, postgres://user:password@host:5432/name, which any
	// number of processes share. Empty: SQLite in File.
	URL string
	// File is where SQLite keeps its data. One process at a time may have it open.
	File string
	// Owner is the service, such as resource: it names the table of the schema's
	// version and the connections that the server shows.
	Owner string
	// Holds is what is in the database, for errors that clients see: resources.
	Holds string
	// Migrations are SQL files of goose in the directories postgres and sqlite, or
	// in one named both.
	Migrations fs.FS
	// Wait is how long a call waits for a connection that nobody gives back; until
	// then nothing ran. Zero is 250 ms.
	Wait time.Duration
	// Work bounds a whole call, in addition to the caller's own deadline. Zero is
	// 5 s.
	Work time.Duration
}

// Defaults of Config, and what is like them.
const (
	defaultWait = 250 * time.Millisecond
	//limit:time all work of one call in the database (the audit trail has 20 s) | `unavailable`
	defaultWork = 5 * time.Second
	// retryAfter is what a caller is told when the database is away.
	retryAfter = 500 * time.Millisecond
)

// Database is one engine. Apart from defects its errors are *fault.Error: Unavailable when the
// database is away, busy or full, whose Executed is unknown when a commit was not answered, and no
// otherwise; and ErrRejected. An error of f is returned unchanged.
type Database interface {
	// Write runs f in a transaction and commits it if f returns nil. f may run
	// again after a failure that a repetition mends.
	Write(ctx context.Context, f func(context.Context, Tx) error) error
	// Read runs f, each statement by itself. f may run again.
	Read(ctx context.Context, f func(context.Context, Tx) error) error
	// Alone runs f unless another process or goroutine runs something alone for
	// the same owner.
	Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error)
	// ForUpdate ends a SELECT whose rows are to stay as they are until the commit.
	ForUpdate() string
	// Among is the condition that a text column has one of the values of the n-th
	// parameter, a []string.
	Among(column string, n int) string
	// Seek follows FROM: the rows of a table whose text column, which has an index, has one
	// of the values of the n-th parameter, a []string. Each value is looked up in the index,
	// even where the planner knows nothing of a table that has just grown.
	Seek(table, column string, n int) string
	// Away says why calls are refused at the moment; nil where they are not. It asks
	// nobody.
	Away() error
	// Figures are for /metrics: how long calls take, and who has the connections.
	Figures() []prometheus.Collector
	// Close ends all calls and waits for them.
	Close()
}

// Tx runs statements, whose parameters are $1, $2 and so on.
type Tx interface {
	// Exec returns how many rows a statement changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	Query(ctx context.Context, statement string, args ...any) (Rows, error)
	// Insert adds n rows to a table, in the fastest way that the engine has.
	Insert(ctx context.Context, table string, columns []string, n int, row func(i int) []any) error
}

// Rows is what a query found. Close it.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// ErrRejected marks a failure that is the fault of what was to be written: a
// violated constraint, or a value that the database does not take.
var ErrRejected = errors.New("the database does not take this")

// Open opens a database, waiting for a Postgres server until ctx ends, makes
// the file of an SQLite one if need be, and brings its tables up to date. It
// refuses the tables of a later release.
func Open(ctx context.Context, cfg Config) (Database, error) {
	if cfg.Wait <= 0 {
		cfg.Wait = defaultWait
	}
	if cfg.Work <= 0 {
		cfg.Work = defaultWork
	}
	switch {
	case IsPostgres(cfg.URL):
		return traced(semconv.DBSystemNamePostgreSQL, cfg)(openPostgres(ctx, cfg))
	case cfg.URL != "":
		return nil, errors.New("the database URL is not one of Postgres: use postgres://user:password@host:5432/name, or none for a file")
	case cfg.File == "":
		return nil, errors.New("there is no place for " + cfg.Holds + ": set BUSBAR_DATABASE_URL or BUSBAR_DATA_DIR")
	}
	return traced(semconv.DBSystemNameSQLite, cfg)(openSQLite(ctx, cfg))
}

// One runs a query and scans its first row; found is false if no row matches.
func One(ctx context.Context, tx Tx, statement string, args []any, dest ...any) (found bool, err error) {
	rows, err := tx.Query(ctx, statement, args...)
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

// All runs a query and scans each row.
func All[V any](ctx context.Context, tx Tx, scan func(func(...any) error) (V, error), statement string, args ...any) (all []V, err error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// IsPostgres reports whether a database URL is one of Postgres.
func IsPostgres(rawURL string) bool {
	return strings.HasPrefix(rawURL, "postgres://") || strings.HasPrefix(rawURL, "postgresql://")
}

// Redacted is a database URL without its password, for people and logs.
func Redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "?"
	}
	q := u.Query()
	q.Del("password")
	u.RawQuery = q.Encode()
	return u.Redacted()
}
