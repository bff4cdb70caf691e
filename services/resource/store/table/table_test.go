package table_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/storetest"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

func open(t testing.TB, cfg database.Config) store.Store {
	t.Helper()
	return openWithin(t, cfg, table.Limits{})
}

func openWithin(t testing.TB, cfg database.Config, limits table.Limits) store.Store {
	t.Helper()
	s, err := table.Open(t.Context(), cfg, limits)
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
		} else if _, c, err := s.Read(t.Context(), "", "a:1", nil); err != nil || string(c.Bytes) != "kept" {
			t.Errorf("%q %v", c.Bytes, err)
		}
		s.Close()
	}
}

// TestH1RoomOfATenant fills what one tenant may keep.
func TestH1RoomOfATenant(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(t *testing.T) database.Config{
		"postgres": func(t *testing.T) database.Config { return database.Config{URL: databasetest.Postgres(t)} },
		"sqlite": func(t *testing.T) database.Config {
			return database.Config{File: filepath.Join(t.TempDir(), "resource.db")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The metadata of a resource counts like its content.
			about := func(uri string) int64 { return int64(len(uri) + len("n") + len("text/plain") + len("null")) }
			cfg := place(t)
			cfg.Wait = patient
			s := openWithin(t, cfg, table.Limits{Resources: 4, Bytes: 1000 + about("memo://keyed") + 3*about("memo://00"), Keys: database.KeyLimits{Keys: 10}})
			create := func(tenant, uri string, size int, once database.Key) error {
				_, err := s.Create(t.Context(), store.Resource{Tenant: tenant, URI: uri, Name: "n", MIMEType: "text/plain"}, storetest.Text(strings.Repeat("x", size)), once)
				return err
			}
			update := func(uri string, size int) error {
				_, err := s.Update(t.Context(), "a", uri, 0, store.Change{Content: &store.Content{Bytes: make([]byte, size), Binary: true}}, database.Key{})
				return err
			}
			once := database.Key{Tenant: "a", Caller: "c", Key: "k", Digest: []byte("d")}
			if err := create("a", "memo://keyed", 100, once); err != nil {
				t.Fatal(err)
			}
			all := make(chan error, 20)
			for i := range cap(all) {
				go func() { all <- create("a", fmt.Sprintf("memo://%02d", i), 100, database.Key{}) }()
			}
			made := 0
			for range cap(all) {
				switch err := <-all; {
				case err == nil:
					made++
				case !fault.Is(err, fault.TooLarge):
					t.Errorf("a further one: %v", err)
				}
			}
			page, _, err := s.List(t.Context(), "a", store.Query{}, "", 100)
			if err != nil || made != 3 || len(page) != 4 {
				t.Fatalf("%d of 20 were created, %d are there, %v", made, len(page), err)
			}
			if err := create("b", "memo://x", 900, database.Key{}); err != nil {
				t.Errorf("another tenant: %v", err)
			}
			if err := create("a", "memo://keyed", 100, once); err != nil {
				t.Errorf("a repetition of what was done: %v", err)
			}
			if err := create("a", "memo://keyed", 100, database.Key{}); !fault.Is(err, fault.Conflict) {
				t.Errorf("a URI that is taken: %v", err)
			}
			if err := update("memo://keyed", 701); !fault.Is(err, fault.TooLarge) {
				t.Errorf("an update beyond the bytes: %v", err)
			}
			if err := update("memo://keyed", 700); err != nil {
				t.Errorf("an update up to the bytes: %v", err)
			}
			describe := func(text string) error {
				_, err := s.Update(t.Context(), "a", "memo://keyed", 0, store.Change{Description: &text}, database.Key{})
				return err
			}
			if err := describe("x"); !fault.Is(err, fault.TooLarge) {
				t.Errorf("a description beyond the bytes: %v", err)
			}
			if err := update("memo://keyed", 600); err != nil {
				t.Errorf("an update that leaves room: %v", err)
			}
			if err := describe(strings.Repeat("x", 100)); err != nil {
				t.Errorf("a description in that room: %v", err)
			}
			if _, err := s.Delete(t.Context(), "a", "memo://keyed", 0, database.Key{}); err != nil {
				t.Errorf("delete: %v", err)
			}
			if err := create("a", "memo://again", 100, database.Key{}); err != nil {
				t.Errorf("after a delete: %v", err)
			}
			// Each write with a key leaves a row for a day, also a deletion.
			keyed := func(tenant string, n int) error {
				_, err := s.Update(t.Context(), tenant, "memo://again", 0, store.Change{Title: new(string)}, database.Key{Tenant: tenant, Caller: "c", Key: fmt.Sprint("n", n), Digest: []byte("d")})
				return err
			}
			for n := range 4 {
				if err := keyed("a", n); err != nil {
					t.Fatal(err)
				}
			}
			if err := keyed("a", 4); !fault.Is(err, fault.RateLimited) || fault.From(err).Executed != fault.No {
				t.Errorf("a sixth write with a key: %v", err)
			}
			if err := keyed("a", 3); err != nil {
				t.Errorf("a repetition: %v", err)
			}
			if err := create("b", "memo://again", 1, database.Key{Tenant: "b", Caller: "c", Key: "k", Digest: []byte("d")}); err != nil {
				t.Errorf("another tenant: %v", err)
			}
		})
	}
}
