package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit/internal/sqlite"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/audit/trail/trailtest"
)

func engine(t *testing.T) trailtest.Engine {
	file := filepath.Join(t.TempDir(), "audit.db")
	return trailtest.Engine{
		Open: func() trail.Store {
			s, err := sqlite.Open(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Exec: func(statement string) {
			t.Helper()
			db, err := database.OpenSQLite(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	trailtest.Run(t, engine)
}
