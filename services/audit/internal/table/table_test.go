package table_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/audit/internal/table"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/audit/trail/trailtest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// patient is how long concurrent calls wait for each other on a slow machine.
const patient = 30 * time.Second

var places = map[string]func(*testing.T) database.Config{
	"postgres": func(t *testing.T) database.Config {
		return database.Config{URL: databasetest.Postgres(t), Wait: patient}
	},
	"sqlite": func(t *testing.T) database.Config {
		return database.Config{File: filepath.Join(t.TempDir(), "audit.db")}
	},
}

func engine(t *testing.T, place database.Config) trailtest.Engine {
	return trailtest.Engine{
		Open: func() trail.Store {
			s, err := table.Open(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Exec: func(statement string) {
			t.Helper()
			stranger := place
			stranger.Owner, stranger.Work = "test", patient
			db, err := database.Open(t.Context(), stranger)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			}); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trailtest.Run(t, func(t *testing.T) trailtest.Engine { return engine(t, place(t)) })
		})
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	s := engine(t, places["postgres"](t)).Open()
	defer s.Close()
	bad := trailtest.Event("a", 2)
	bad.Name = "a\x00b"
	if n, err := s.Append(t.Context(), []trail.Event{trailtest.Event("a", 1), bad}); n != 0 || !errors.Is(err, trail.ErrRejected) {
		t.Errorf("%d, %v", n, err)
	}
	trailtest.Append(t, s, 1, trailtest.Event("a", 1))
	s.Close()
	if _, err := s.Append(t.Context(), []trail.Event{trailtest.Event("a", 3)}); err == nil || errors.Is(err, trail.ErrRejected) {
		t.Errorf("closed: %v", err)
	}
}

// A table that grows from nothing is not read as a whole for each batch, although it was
// never analyzed and plans that were made while it was empty are still in use.
func TestBatchesDoNotReadTheTable(t *testing.T) {
	t.Parallel()
	const batches, size = 20, 100
	place := places["postgres"](t)
	s := engine(t, place).Open()
	for n := range batches {
		trailtest.Append(t, s, size, trailtest.Events("a", n*size+1, (n+1)*size)...)
	}
	s.Close() // makes Postgres flush its counters
	place.Owner, place.Work = "test", patient
	db, err := database.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var inserted, read int64
	bustest.Eventually(t, "Postgres has counted", func() bool {
		err := db.Read(t.Context(), func(ctx context.Context, tx database.Tx) error {
			_, err := database.One(ctx, tx, "SELECT n_tup_ins, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'audit_event'", nil, &inserted, &read)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return inserted == batches*size
	})
	if read > batches*size {
		t.Errorf("%d rows were read to write %d", read, inserted)
	}
}

// A trail that the first release of the table wrote verifies after the table has grown,
// and continues.
func TestM16RowsOfTheEarlierRelease(t *testing.T) {
	t.Parallel()
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := at(t)
			earlier, first := place, fstest.MapFS{}
			for _, engine := range []string{"postgres", "sqlite"} {
				file := engine + "/00001_trail.sql"
				text, err := os.ReadFile(filepath.Join("migrations", file))
				if err != nil {
					t.Fatal(err)
				}
				first[file] = &fstest.MapFile{Data: text}
			}
			earlier.Owner, earlier.Work, earlier.Migrations = "audit", patient, first
			db, err := database.Open(t.Context(), earlier)
			if err != nil {
				t.Fatal(err)
			}
			e := trailtest.Event("a", 1)
			e.Details = trail.Details{}
			chain := trail.Chain{Tenant: "a", Hash: trail.Genesis("a")}
			row := chain.Next(&e)
			// As the earlier release hashed it.
			if got := row.Hash.String(); got != "3634ad75e44eda51102760b87e12f13aaa5feb60c9dae669f0b5d8bb7ed5c776" {
				t.Errorf("hash %s", got)
			}
			columns, values := trail.Columns[:len(trail.Columns)-1], row.Values()
			err = db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
				if err := tx.Insert(ctx, "audit_event", columns, 1, func(int) []any { return values[:len(columns)] }); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "INSERT INTO audit_chain (tenant, seq, hash) VALUES ($1, $2, $3)", "a", 1, chain.Hash.Blob())
				return err
			})
			db.Close()
			if err != nil {
				t.Fatal(err)
			}
			s := engine(t, place).Open()
			defer s.Close()
			_, trusted := trailtest.Key(t)
			trailtest.Append(t, s, 1, trailtest.Event("a", 1), trailtest.Event("a", 2))
			if r := trailtest.Verify(t, s, trusted); !r.OK || r.Chains[0].Last != 2 {
				t.Errorf("%+v", r)
			}
			if rows, err := s.Show(t.Context(), e.Call); err != nil || len(rows) != 1 || rows[0].Details != (trail.Details{}) {
				t.Errorf("%+v %v", rows, err)
			}
			rows, _, err := s.List(t.Context(), trail.Filter{Parent: "PARENT2"})
			if err != nil || len(rows) != 1 || rows[0].Approval != "agreed" {
				t.Errorf("%+v %v", rows, err)
			}
		})
	}
}
