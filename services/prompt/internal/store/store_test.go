package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// patient is how long calls wait for each other on a slow machine.
const patient = 30 * time.Second

func TestStore(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*testing.T) database.Config{
		"postgres": func(t *testing.T) database.Config { return database.Config{URL: databasetest.Postgres(t)} },
		"sqlite": func(t *testing.T) database.Config {
			return database.Config{File: filepath.Join(t.TempDir(), "prompt.db")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Open {
				cfg := place(t)
				cfg.Wait, cfg.Work = patient, patient
				return func(t *testing.T) store.Store {
					s, err := store.Open(t.Context(), cfg, storetest.Limits)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(s.Close)
					return s
				}
			})
		})
	}
}
