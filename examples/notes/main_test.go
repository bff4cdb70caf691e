package main

import (
	"os"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// The notes are there after a restart, and each tenant has its own. Both engines pass the
// same test: SQLite always, Postgres where BUSBAR_TEST_DATABASE_URL names a server.
func TestNotes(t *testing.T) {
	envs := map[string]service.DataEnv{"SQLite": {DataDir: t.TempDir()}}
	if os.Getenv("BUSBAR_TEST_DATABASE_URL") != "" {
		envs["Postgres"] = service.DataEnv{DatabaseURL: databasetest.Postgres(t)}
	}
	for engine, env := range envs {
		t.Run(engine+" add", func(t *testing.T) {
			bus := servicetest.Start(t, servicetest.Build(t, build, env)).As("ada", "acme")
			if got, err := servicetest.Call[note](bus, "notes_add", entry{"one bus"}); err != nil || got.Author != "ada" {
				t.Error(got, err)
			}
			if r := bus.Call("notes_add", entry{""}); r.Err == nil {
				t.Error("an empty note:", r.Text)
			}
		})
		t.Run(engine+" list", func(t *testing.T) {
			bus := servicetest.Start(t, servicetest.Build(t, build, env))
			for tenant, want := range map[string]int{"acme": 1, "shop": 0} {
				got, err := servicetest.Call[list](bus.As("ada", tenant), "notes_list", nil)
				if err != nil || len(got.Notes) != want || want == 1 && got.Notes[0].Text != "one bus" {
					t.Error(tenant, got, err)
				}
			}
		})
	}
}
