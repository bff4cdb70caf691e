package postgres_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/audit/internal/postgres"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/audit/trail/trailtest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func engine(t *testing.T) trailtest.Engine {
	url := databasetest.Postgres(t)
	return trailtest.Engine{
		Open: func() trail.Store {
			s, err := postgres.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Exec: func(statement string) {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(t.Context()) }()
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	trailtest.Run(t, engine)
}

func TestRejected(t *testing.T) {
	t.Parallel()
	s := engine(t).Open()
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
