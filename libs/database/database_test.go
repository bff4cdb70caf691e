package database_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func migrations(n int) fstest.MapFS {
	all := fstest.MapFS{
		"both/00001_first.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE thing (name text PRIMARY KEY);\nINSERT INTO thing VALUES ('one');\n")},
		"both/00002_second.sql": {Data: []byte("-- +goose Up\nALTER TABLE thing ADD COLUMN more text;\n")},
	}
	if n == 1 {
		delete(all, "both/00002_second.sql")
	}
	return all
}

// patient is how long tests wait for a connection on a slow machine.
const patient = time.Minute

// places make a separate database for a test, one of each engine.
var places = map[string]func(*testing.T) database.Config{
	"postgres": func(t *testing.T) database.Config {
		return database.Config{URL: databasetest.Postgres(t), Owner: "test", Holds: "things", Wait: patient, Work: patient}
	},
	"sqlite": func(t *testing.T) database.Config {
		return database.Config{File: filepath.Join(t.TempDir(), "a dir?", "x%20y#z.db"), Owner: "test", Holds: "things", Work: patient}
	},
}

// on runs a test on both engines.
func on(t *testing.T, test func(*testing.T, database.Config)) {
	t.Parallel()
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

func open(t *testing.T, cfg database.Config) database.Database {
	t.Helper()
	db, err := database.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func exec(t *testing.T, db database.Database, statement string, args ...any) {
	t.Helper()
	if err := db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
		_, err := tx.Exec(ctx, statement, args...)
		return err
	}); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, db database.Database, query string, args ...any) (n int) {
	t.Helper()
	if err := db.Read(t.Context(), func(ctx context.Context, tx database.Tx) error {
		_, err := database.One(ctx, tx, query, args, &n)
		return err
	}); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Calls are counted by how they ended, and connections while they are used.
func TestFigures(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		db := open(t, cfg)
		all := prometheus.NewRegistry()
		all.MustRegister(db.Figures()...)
		during := map[string]float64{}
		own := errors.New("own")
		for _, err := range []error{nil, nil, own, fault.New(fault.Conflict, "no"), database.ErrRejected} {
			if got := db.Write(t.Context(), func(context.Context, database.Tx) error {
				during = figures(t, all)
				return err
			}); !errors.Is(got, err) {
				t.Fatal(got)
			}
		}
		if used, most := during["busbar_database_connections_used test"], during["busbar_database_connections_most test"]; used != 1 || most < 2 {
			t.Errorf("%v of %v connections are used", used, most)
		}
		now := figures(t, all)
		for name, want := range map[string]float64{
			"busbar_database_connections_used test":                0,
			"busbar_database_duration_seconds write ok test":       2,
			"busbar_database_duration_seconds write failed test":   1,
			"busbar_database_duration_seconds write conflict test": 1,
			"busbar_database_duration_seconds write rejected test": 1,
		} {
			if now[name] != want {
				t.Errorf("%s is %v, not %v: %v", name, now[name], want, now)
			}
		}
	})
}

// figures are values of gauges and counts of histograms, by name and labels.
func figures(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Error(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, label := range m.Label {
				name += " " + label.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestMigrate(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		migrate := func(n int) error {
			own := cfg
			own.Migrations = migrations(n)
			db, err := database.Open(t.Context(), own)
			if err == nil {
				db.Close()
			}
			return err
		}
		db := open(t, cfg)
		t.Run("replicas that start at once migrate once", func(t *testing.T) {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if err := migrate(1); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := count(t, db, "SELECT count(*) FROM thing"); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
		t.Run("a later release adds to it", func(t *testing.T) {
			if err := migrate(2); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "SELECT count(*) FROM thing WHERE more IS NULL"); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
		t.Run("an earlier release refuses to start on it", func(t *testing.T) {
			err := migrate(1)
			if err == nil || !strings.Contains(err.Error(), "version 2 of test's schema and this program knows 1") {
				t.Errorf("%v", err)
			}
		})
	})
}

// TestWritersAtOnce: writers of several stores queue, and do not poll a lock; readers do not wait.
func TestWritersAtOnce(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		cfg.Migrations = fstest.MapFS{"both/00001_n.sql": {Data: []byte("-- +goose Up\nCREATE TABLE counter (n bigint);\nINSERT INTO counter VALUES (0);\n")}}
		// Two write, and one reads: the connections of the others wait for the row.
		all := []database.Database{open(t, cfg), open(t, cfg)}
		reader := open(t, cfg)
		const writers, each = 16, 10
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for range each {
					exec(t, all[w%2], "UPDATE counter SET n = n + 1")
				}
			})
		}
		held := make(chan struct{})
		wg.Go(func() {
			if err := all[0].Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
				if _, err := tx.Exec(ctx, "UPDATE counter SET n = n + 1000"); err != nil {
					return err
				}
				if n := count(t, reader, "SELECT n FROM counter"); n >= 1000 {
					t.Errorf("a reader sees %d, which is not committed", n)
				}
				return errAgainst
			}); !errors.Is(err, errAgainst) {
				t.Errorf("what the function returned is %v", err)
			}
			close(held)
		})
		wg.Wait()
		<-held
		if n := count(t, all[0], "SELECT n FROM counter"); n != writers*each {
			t.Errorf("%d of %d", n, writers*each)
		}
	})
}

var errAgainst = errors.New("decided against it")

// TestWaitingEndsWithItsCaller: a call that waits for its turn to write leaves when its context
// ends, and nothing ran.
func TestWaitingEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	db := open(t, places["sqlite"](t))
	if err := db.Write(t.Context(), func(context.Context, database.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := db.Write(ctx, func(context.Context, database.Tx) error {
			t.Error("a second writer")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestInsert(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		cfg.Migrations = fstest.MapFS{"both/00001_n.sql": {Data: []byte("-- +goose Up\nCREATE TABLE item (n bigint PRIMARY KEY, name text NOT NULL);\n")}}
		db := open(t, cfg)
		insert := func(first, n int) error {
			return db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
				return tx.Insert(ctx, "item", []string{"n", "name"}, n, func(i int) []any { return []any{int64(first + i), fmt.Sprint("item ", first+i)} })
			})
		}
		if err := errors.Join(insert(0, 0), insert(0, 35), insert(35, 1)); err != nil {
			t.Fatal(err)
		}
		if err := insert(35, 40); !errors.Is(err, database.ErrRejected) {
			t.Errorf("a key twice: %v", err)
		}
		if n := count(t, db, "SELECT count(*) FROM item WHERE name = 'item ' || n"); n != 36 {
			t.Errorf("%d rows", n)
		}
		for _, c := range []struct {
			names []string
			want  int
		}{{[]string{"item 3", "item 35", "none", `"quoted"`}, 2}, {nil, 0}, {[]string{"' OR 1=1 --"}, 0}} {
			if n := count(t, db, "SELECT count(*) FROM item WHERE "+db.Among("name", 1), append([]string{}, c.names...)); n != c.want {
				t.Errorf("%d of %q", n, c.names)
			}
		}
	})
}

// A caller that is refused because the disk is full is told that, and not that the database does
// not answer.
func TestFull(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		db := open(t, cfg)
		exec(t, db, `CREATE TABLE big (b TEXT)`)
		fill := []string{`DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$`}
		if cfg.URL == "" {
			fill = []string{`PRAGMA max_page_count = 1`, `INSERT INTO big VALUES (hex(randomblob(1000000)))`}
		}
		err := db.Write(t.Context(), func(ctx context.Context, tx database.Tx) (err error) {
			for _, statement := range fill {
				if _, err = tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
		f := fault.From(err)
		if !fault.Is(err, fault.Unavailable) || f.Executed != fault.No || !strings.Contains(f.Message, "disk") {
			t.Errorf("%v", err)
		}
		if n := count(t, db, `SELECT count(*) FROM big`); n != 0 {
			t.Errorf("%d rows", n)
		}
		if err := db.Away(); err == nil || !strings.Contains(err.Error(), "make room") {
			t.Errorf("after that it says %v", err)
		}
		again := `SELECT 1`
		if cfg.URL == "" {
			again = `PRAGMA max_page_count = 1000000`
		}
		exec(t, db, again)
		if err := db.Away(); err != nil {
			t.Errorf("with room again it says %v", err)
		}
	})
}

func TestClosed(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		db, other := open(t, cfg), open(t, cfg)
		db.Close()
		nothing := func(ctx context.Context, tx database.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		}
		for what, err := range map[string]error{"write": db.Write(t.Context(), nothing), "read": db.Read(t.Context(), nothing)} {
			if f := fault.From(err); err == nil || f.Reason != fault.Unavailable || f.Executed != fault.No {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := other.Write(t.Context(), nothing); err != nil {
			t.Errorf("another user of the same database: %v", err)
		}
	})
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
			_, err := database.Open(ctx, database.Config{URL: c.url, Owner: "test"})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") || strings.Count(err.Error(), "connection refused") > 1 {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("waits for locks no longer than a call may take", func(t *testing.T) {
		t.Parallel()
		cfg := places["postgres"](t)
		cfg.URL += "&statement_timeout=2000" // for what opens it, too
		err := open(t, cfg).Read(t.Context(), func(ctx context.Context, tx database.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_sleep(10)")
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "57014") {
			t.Errorf("%v", err)
		}
	})
}

func TestOpenSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "x.db")
	db := open(t, database.Config{File: file, Owner: "test"})
	pragma := func(what, want string) func(context.Context, database.Tx) error {
		return func(ctx context.Context, tx database.Tx) error {
			var got string
			if _, err := database.One(ctx, tx, "PRAGMA "+what, nil, &got); err != nil || got != want {
				t.Errorf("%s is %q, %v", what, got, err)
			}
			return nil
		}
	}
	for what, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		if err := db.Write(t.Context(), pragma(what, want)); err != nil {
			t.Error(err)
		}
	}
	if err := db.Read(t.Context(), pragma("query_only", "1")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestOneProcessAFile: a file that another process has open is refused with advice, and can be used
// again when that process has ended in any way.
func TestOneProcessAFile(t *testing.T) {
	const variable = "BUSBAR_TEST_HOLD_FILE"
	if file := os.Getenv(variable); file != "" {
		open(t, database.Config{File: file, Owner: "test"})
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has gone
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.db")
	other := osexec.Command(os.Args[0], "-test.run=^TestOneProcessAFile$")
	other.Env = append(os.Environ(), variable+"="+file)
	_, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err = database.Open(t.Context(), database.Config{File: file, Owner: "test"})
	if err == nil || !strings.Contains(err.Error(), file+" is in use by another process") || !strings.Contains(err.Error(), "--database-url") {
		t.Errorf("a second process opens the file: %v", err)
	}
	kill()
	open(t, database.Config{File: file, Owner: "test"}).Close()
}

// TestSeverity reads what a server says in another language (lc_messages).
func TestSeverity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said          pgconn.PgError
		lost, inDoubt bool
	}{
		"an error":                        {pgconn.PgError{Severity: "ERROR"}, false, false},
		"an error in German":              {pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR"}, false, false},
		"the connection ends":             {pgconn.PgError{Severity: "FATAL"}, true, true},
		"the connection ends, in Russian": {pgconn.PgError{Severity: "ВАЖНО", SeverityUnlocalized: "FATAL"}, true, true},
	} {
		if lost, doubt := database.Lost(&c.said), database.InDoubt(&c.said); lost != c.lost || doubt != c.inDoubt {
			t.Errorf("%s: lost %t, in doubt %t", name, lost, doubt)
		}
	}
}
