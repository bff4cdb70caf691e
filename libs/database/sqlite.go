package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// readers is how many connections read a file at the same time.
const readers = 4

// sqlite is one user of a file.
type sqlite struct {
	*file
	cfg    Config
	closed atomic.Bool
}

// file is a database file opened by this process. It is opened once for all users, because SQLite
// has one writer, and waiting for its lock means polling.
type file struct {
	path string
	// lock keeps other processes off.
	lock *flock.Flock
	// write is the only connection that writes; turn is held by its user. The caller that has
	// waited longest is next, and waiting ends with the caller's context.
	write *sql.DB
	turn  chan struct{}
	read  *sql.DB
	alone sync.Mutex
	users int // under filesMu
}

var (
	filesMu sync.Mutex
	files   = map[string]*file{}
)

// openSQLite opens a file. Every commit is on the disk before it returns.
func openSQLite(ctx context.Context, cfg Config) (Database, error) {
	path, err := filepath.Abs(cfg.File)
	if err != nil {
		return nil, err
	}
	filesMu.Lock()
	defer filesMu.Unlock()
	f := files[path]
	if f == nil {
		if f, err = newFile(ctx, path); err != nil {
			return nil, err
		}
		files[path] = f
	}
	f.users++
	db := &sqlite{file: f, cfg: cfg}
	if cfg.Migrations != nil {
		if err := migrateSQLite(ctx, f, cfg); err != nil {
			return nil, errors.Join(err, f.leave())
		}
	}
	return db, nil
}

func newFile(ctx context.Context, path string) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the database: %w", err)
	}
	open := func(n int, pragmas ...string) (*sql.DB, error) {
		// Within this process the lock is always free when it is requested. The timeout is for
		// other programs, such as a backup.
		q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: escape(path), RawQuery: q.Encode()}).String())
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		db.SetMaxOpenConns(n)
		db.SetMaxIdleConns(n)
		if err := db.PingContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
		}
		return db, nil
	}
	lock, err := lockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	write, err := open(1, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	read, err := open(readers, "query_only(1)")
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, write.Close(), lock.Unlock())
	}
	return &file{path: path, lock: lock, write: write, turn: make(chan struct{}, 1), read: read}, nil
}

// lockTime is how long to wait for a file that another process has open, because that process may
// be about to end.
const lockTime = 2 * time.Second

// lockFile locks a file for this process, because the order of writers, Alone and the ids of stores
// work only among the users within one process.
func lockFile(ctx context.Context, path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	waiting, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	switch held, err := lock.TryLockContext(waiting, 50*time.Millisecond); {
	case held:
		return lock, nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil, fmt.Errorf("%s is in use by another process, and SQLite's files are for one: stop that one, "+
			"or start all instances on one Postgres with --database-url (BUSBAR_DATABASE_URL)", path)
	default:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
}

// escape turns a path into the opaque part of a file: URL.
func escape(file string) string { return (&url.URL{Path: file}).EscapedPath() }

// leave is called under filesMu.
func (f *file) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	delete(files, f.path)
	return errors.Join(f.read.Close(), f.write.Close(), f.lock.Unlock())
}

func (s *sqlite) Away() error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

func (s *sqlite) Close() {
	if s.closed.Swap(true) {
		return
	}
	filesMu.Lock()
	defer filesMu.Unlock()
	_ = s.leave()
}

func (s *sqlite) ForUpdate() string { return "" }

func (s *sqlite) Among(column string, n int) string {
	return column + " IN (SELECT value FROM json_each($" + strconv.Itoa(n) + "))"
}

func (s *sqlite) Seek(table, column string, n int) string {
	return table + " WHERE " + s.Among(column, n)
}

var errClosed = errors.New("the database is closed")

// Write runs f as the only writer of the file.
func (s *sqlite) Write(ctx context.Context, f func(context.Context, Tx) error) error {
	if s.closed.Load() {
		return s.fail(ctx, errClosed)
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Work)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-bounded.Done():
		return s.fail(ctx, bounded.Err())
	}
	t, err := s.write.BeginTx(bounded, nil)
	if err != nil {
		return s.fail(ctx, err)
	}
	if err := f(bounded, sqliteTx{t}); err != nil {
		_ = t.Rollback()
		return s.fail(ctx, err)
	}
	if err := t.Commit(); err != nil {
		_ = t.Rollback()
		return s.fail(ctx, unanswered(err))
	}
	return nil
}

// unanswered marks the failure of a commit that may have reached the disk.
func unanswered(err error) error {
	var said *driver.Error
	if errors.As(err, &said) && said.Code()&0xff == codes.SQLITE_IOERR {
		return doubt{err}
	}
	return err
}

// Read runs f while others write.
func (s *sqlite) Read(ctx context.Context, f func(context.Context, Tx) error) error {
	if s.closed.Load() {
		return s.fail(ctx, errClosed)
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Work)
	defer cancel()
	return s.fail(ctx, f(bounded, sqliteTx{s.read}))
}

func (s *sqlite) Alone(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	if !s.alone.TryLock() {
		return false, nil
	}
	defer s.alone.Unlock()
	return true, f(ctx)
}

// fail turns an error of SQLite into an error of Database.
func (s *sqlite) fail(ctx context.Context, err error) error {
	var known *fault.Error
	var said *driver.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, new(doubt)):
		return s.cfg.unanswered(err)
	case ctx.Err() != nil:
		return err
	case errors.As(err, &said):
		switch said.Code() & 0xff {
		case codes.SQLITE_CONSTRAINT, codes.SQLITE_TOOBIG, codes.SQLITE_MISMATCH:
			return fmt.Errorf("%w: %w", ErrRejected, err)
		case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_READONLY, codes.SQLITE_IOERR, codes.SQLITE_FULL, codes.SQLITE_CANTOPEN, codes.SQLITE_INTERRUPT:
		default:
			return err // a defect
		}
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sql.ErrConnDone) && !errors.Is(err, errClosed):
		return err
	}
	return s.cfg.unavailable(time.Second, err)
}

// sqliteTx is a database or a transaction.
type sqliteTx struct {
	q interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}
}

func (t sqliteTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	args, err := lists(args)
	if err != nil {
		return 0, err
	}
	result, err := t.q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t sqliteTx) Query(ctx context.Context, statement string, args ...any) (Rows, error) {
	args, err := lists(args)
	if err != nil {
		return nil, err
	}
	found, err := t.q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return sqliteRows{found}, nil
}

// lists makes each []string the JSON array that Among reads.
func lists(args []any) ([]any, error) {
	for i, arg := range args {
		list, ok := arg.([]string)
		if !ok {
			continue
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		args = slices.Clone(args)
		args[i] = string(text)
	}
	return args, nil
}

// together is how many rows one statement of Insert adds. The driver looks for each value
// among all of them, so more rows cost more than they save.
const together = 4

func (t sqliteTx) Insert(ctx context.Context, table string, columns []string, n int, row func(i int) []any) error {
	one := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	for i := 0; i < n; {
		rows := together
		if n-i < rows {
			rows = 1
		}
		statement, err := t.q.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES "+one+strings.Repeat(", "+one, rows-1))
		if err != nil {
			return err
		}
		args := make([]any, 0, rows*len(columns))
		for ; err == nil && i+rows <= n; i += rows {
			args = args[:0]
			for k := range rows {
				args = append(args, row(i+k)...)
			}
			_, err = statement.ExecContext(ctx, args...)
		}
		if err := errors.Join(err, statement.Close()); err != nil {
			return err
		}
	}
	return nil
}

type sqliteRows struct{ *sql.Rows }

func (r sqliteRows) Close() { _ = r.Rows.Close() }
