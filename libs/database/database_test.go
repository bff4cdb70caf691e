package database_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func migrations(n int) fstest.MapFS {
	all := fstest.MapFS{
		"00001_first.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE thing (name text PRIMARY KEY);\nINSERT INTO thing VALUES ('one');\n")},
		"00002_second.sql": {Data: []byte("-- +goose Up\nALTER TABLE thing ADD COLUMN more text;\n")},
	}
	if n == 1 {
		delete(all, "00002_second.sql")
	}
	return all
}

// engine is one way to have a database.
type engine struct {
	migrate func(ctx context.Context, owner string, n int) error
	count   func(query string) int
}

func postgres(t *testing.T) engine {
	url := databasetest.Postgres(t)
	open := func() (*pgxpool.Pool, error) { return database.OpenPostgres(t.Context(), url, "test") }
	pool, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return engine{
		// Each replica has a pool of its own.
		migrate: func(ctx context.Context, owner string, n int) error {
			own, err := open()
			if err != nil {
				return err
			}
			defer own.Close()
			return database.MigratePostgres(ctx, own, owner, migrations(n))
		},
		count: func(query string) (n int) {
			if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}
}

func sqlite(t *testing.T) engine {
	db := openSQLite(t, filepath.Join(t.TempDir(), "a dir?", "x%20y#z.db"))
	return engine{
		migrate: func(ctx context.Context, owner string, n int) error {
			return database.MigrateSQLite(ctx, db, owner, migrations(n))
		},
		count: func(query string) (n int) {
			if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}
}

func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) engine{"postgres": postgres, "sqlite": sqlite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t)
			t.Run("replicas that start at once migrate once", func(t *testing.T) {
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() {
						if err := e.migrate(t.Context(), "owner", 1); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if n := e.count("SELECT count(*) FROM thing"); n != 1 {
					t.Errorf("%d rows", n)
				}
			})
			t.Run("a later release adds to it", func(t *testing.T) {
				if err := e.migrate(t.Context(), "owner", 2); err != nil {
					t.Fatal(err)
				}
				if n := e.count("SELECT count(*) FROM thing WHERE more IS NULL"); n != 1 {
					t.Errorf("%d rows", n)
				}
			})
			t.Run("an earlier release refuses to start on it", func(t *testing.T) {
				err := e.migrate(t.Context(), "owner", 1)
				if err == nil || !strings.Contains(err.Error(), "version 2 of owner's schema and this program knows 1") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestOpenPostgres(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ url, says string }{
		"not a URL":     {"postgres://x:secret@[::1", "not one"},
		"nobody there":  {"postgres://u:secret@127.0.0.1:1/x", "does not answer"},
		"no such place": {"postgres://u:secret@nowhere.invalid/x?password=secret", "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := database.OpenPostgres(ctx, c.url, "test")
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("waits for locks no longer than a call may take", func(t *testing.T) {
		t.Parallel()
		pool, err := database.OpenPostgres(t.Context(), databasetest.Postgres(t)+"&statement_timeout=50", "test")
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(10)"); err == nil || !strings.Contains(err.Error(), "57014") {
			t.Errorf("%v", err)
		}
	})
}

func TestOpenSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "x.db")
	db := openSQLite(t, file)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
		var got string
		if err := db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v", pragma, got, err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}
