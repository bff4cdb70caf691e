package table_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/storetest"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func open(t testing.TB, cfg database.Config) store.Store {
	t.Helper()
	s, err := table.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// patient is how long calls wait for one another on a slow machine.
const patient = 30 * time.Second

func TestStore(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(t *testing.T) database.Config{
		"postgres": func(t *testing.T) database.Config { return database.Config{URL: databasetest.Postgres(t)} },
		"sqlite": func(t *testing.T) database.Config {
			return database.Config{File: filepath.Join(t.TempDir(), "resource.db")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) func() store.Store {
				cfg := place(t)
				cfg.Wait, cfg.Work = patient, patient
				return func() store.Store { return open(t, cfg) }
			})
		})
	}
}

func TestReopened(t *testing.T) {
	t.Parallel()
	cfg := database.Config{File: filepath.Join(t.TempDir(), "resource.db")}
	for i := range 2 {
		s := open(t, cfg)
		if i == 0 {
			storetest.Make(t, s, "", "a:1", "kept")
		} else if _, c, err := s.Read(t.Context(), "", "a:1"); err != nil || string(c.Bytes) != "kept" {
			t.Errorf("%q %v", c.Bytes, err)
		}
		s.Close()
	}
}
