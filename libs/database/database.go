// Package database is the storage of all services that own data: Postgres for a fleet, or SQLite in
// a file by default. Both run the same transactions, limit the time of a call, refuse at once while
// the database is away, and say truthfully whether a write was made. So an outage looks the same in
// every service. Each service has its own store on a Database, with one suite of tests that runs on
// both engines. Start reading at Open and Database; Once makes a write idempotent.
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

// Config names a database and the owner of the tables in it.
type Config struct {
	// URL is the URL of a Postgres database, postgres://user:password@host:5432/name, which any
	// number of processes share. Empty: SQLite in File.
	URL string
	// File is the path of SQLite's file. Only one process at a time can have it open.
	File string
	// Owner is the service, such as resource: the table of the schema's version and the connections
	// shown by the server are named after it.
	Owner string
	// Holds names the content of the database in errors for clients, for example "resources".
	Holds string
	// Migrations are SQL files of goose in the directories postgres and sqlite, or
	// in one named both.
	Migrations fs.FS
	// Wait is how long a call waits for a connection while none is given back; nothing has run
	// until then. Zero is 250 ms.
	Wait time.Duration
	// Work is the time limit of a whole call, in addition to the caller's own deadline. Zero is 5
	// s.
	Work time.Duration
}

// Defaults of Config, and similar values.
const (
	defaultWait = 250 * time.Millisecond
	//limit:time all work of one call in the database (the audit trail has 20 s) | `unavailable`
	defaultWork = 5 * time.Second
	// retryAfter is the wait that a caller is told while the database is away.
	retryAfter = 500 * time.Millisecond
)

// Database is one engine. Apart from defects its errors are *fault.Error: Unavailable if the
// database is away, busy or full (Executed is unknown if a commit was not answered, otherwise no),
// or ErrRejected. An error of f is returned unchanged.
type Database interface {
	// Write runs f in a transaction and commits it if f returns nil. f may run again after a
	// failure that a repetition can resolve.
	Write(ctx context.Context, f func(context.Context, Tx) error) error
	// Read runs f without a transaction. f may run again.
	Read(ctx context.Context, f func(context.Context, Tx) error) error
	// Alone runs f, unless another process or goroutine is inside Alone for the same owner.
	Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error)
	// ForUpdate is the end of a SELECT whose rows must not change until the commit.
	ForUpdate() string
	// Among is the condition that a text column has one of the values of the n-th
	// parameter, a []string.
	Among(column string, n int) string
	// Seek follows FROM: the rows of a table whose text column, which has an index, has one
	// of the values of the n-th parameter, a []string. Each value is looked up in the index,
	// even where the planner knows nothing of a table that has just grown.
	Seek(table, column string, n int) string
	// Away returns the reason why calls are refused at the moment, or nil. It sends no request.
	Away() error
	// Figures returns the metrics of the database: durations of calls and use of connections.
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

// Rows is the result of a query. Close it.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// ErrRejected marks a failure caused by the written data: a violated constraint, or a value that
// the database does not accept.
var ErrRejected = errors.New("the database does not take this")

// Open opens a database and updates its tables. It waits for a Postgres server until ctx ends, and
// creates the file of SQLite if needed. It refuses the tables of a later release.
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

// IsPostgres reports whether a database URL is a Postgres URL.
func IsPostgres(rawURL string) bool {
	return strings.HasPrefix(rawURL, "postgres://") || strings.HasPrefix(rawURL, "postgresql://")
}

// Redacted returns a database URL without its password, for people and logs.
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
