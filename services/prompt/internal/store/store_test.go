package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func TestPostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		url := databasetest.Postgres(t)
		return func(t *testing.T) store.Store {
			s, err := store.Postgres(t.Context(), url)
			return opened(t, s, err)
		}
	})
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		file := filepath.Join(t.TempDir(), "prompt.db")
		return func(t *testing.T) store.Store {
			s, err := store.SQLite(t.Context(), file)
			return opened(t, s, err)
		}
	})
}

func opened(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
