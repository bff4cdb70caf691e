package table_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/audit/internal/table"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/audit/trail/trailtest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// patient is how long calls wait for one another on a slow machine.
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
