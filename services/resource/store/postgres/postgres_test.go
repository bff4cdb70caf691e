package postgres_test

import (
	"os"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/postgres"
	"github.com/busbar-mcp/busbar/services/resource/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func open(t testing.TB, url string) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) func() store.Store {
		url := databasetest.Postgres(t)
		return func() store.Store { return open(t, url) }
	})
}
