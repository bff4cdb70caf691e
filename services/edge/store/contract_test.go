package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// TestSessions is what two edges that share their sessions rely on.
func TestSessions(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	for name, test := range map[string]func(t *testing.T, one, two *store.Sessions){
		"keeps what it is given": keeps, "saves": saves, "deletes": deletes, "ids": ids, "knows its ids": badIDs,
		"reads its own writes": ownWrites, "bounds a session": bounds, "serves many at once": many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, bustest.Connect(t, url)), open(t, bustest.Connect(t, url)))
		})
	}
}

func create(t *testing.T, s *store.Sessions) *store.Session {
	t.Helper()
	n := &store.Session{Version: "2025-06-18", ClientName: "näme", ClientVer: "1", Capabilities: jsontext.Value(`{"roots":{}}`)}
	if err := s.Create(t.Context(), n); err != nil {
		t.Fatalf("create: %v", err)
	}
	return n
}

func get(t *testing.T, s *store.Sessions, id string) *store.Session {
	t.Helper()
	n, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return n
}

func unknown(t *testing.T, what string, err error) {
	t.Helper()
	if !fault.Is(err, fault.UnknownSession) {
		t.Errorf("%s: %v, want %s", what, err, fault.UnknownSession)
	}
}

// soon waits for what another edge hears a moment later.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen in a minute: %s", what)
		}
	}
}

func keeps(t *testing.T, one, two *store.Sessions) {
	n := create(t, one)
	for _, s := range []*store.Sessions{one, two, one, two} {
		got := get(t, s, n.ID)
		if got.ID != n.ID || got.Version != n.Version || got.ClientName != n.ClientName || got.ClientVer != n.ClientVer ||
			string(got.Capabilities) != string(n.Capabilities) || got.LogLevel != "" {
			t.Errorf("got %+v, want %+v", got, n)
		}
	}
}

func saves(t *testing.T, one, two *store.Sessions) {
	n := create(t, one)
	get(t, two, n.ID) // known to both
	if err := one.Change(t.Context(), n.ID, func(s *store.Session) error { s.LogLevel = "error"; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := get(t, one, n.ID); got.LogLevel != "error" || got.ClientName != n.ClientName {
		t.Errorf("got %+v", got)
	}
	soon(t, "the other edge has what was saved", func() bool { return get(t, two, n.ID).LogLevel == "error" })
}

func deletes(t *testing.T, one, two *store.Sessions) {
	n, other := create(t, one), create(t, one)
	get(t, one, n.ID)
	get(t, two, n.ID)
	if err := two.Delete(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	_, err := two.Get(t.Context(), n.ID)
	unknown(t, "get after delete", err)
	unknown(t, "second delete", two.Delete(t.Context(), n.ID))
	soon(t, "the other edge forgets it", func() bool {
		_, err := one.Get(t.Context(), n.ID)
		return fault.Is(err, fault.UnknownSession)
	})
	get(t, one, other.ID)
}

// ids are unguessable: at least 128 bits, and no visible pattern.
func ids(t *testing.T, one, two *store.Sessions) {
	seen := map[string]bool{}
	var at [64]map[byte]bool
	for range 100 {
		for _, s := range []*store.Sessions{one, two} {
			id := create(t, s).ID
			if len(id) < 22 || len(id) > 64 || seen[id] {
				t.Fatalf("id %q", id)
			}
			seen[id] = true
			for i := range len(id) {
				if id[i] < 0x21 || id[i] > 0x7e { // 2025-11-25, transports: visible ASCII
					t.Fatalf("id %q", id)
				}
				if at[i] == nil {
					at[i] = map[byte]bool{}
				}
				at[i][id[i]] = true
			}
		}
	}
	for i := range 22 {
		if len(at[i]) < 8 {
			t.Errorf("character %d takes only %d values in %d ids", i, len(at[i]), len(seen))
		}
	}
}

func badIDs(t *testing.T, one, _ *store.Sessions) {
	n := create(t, one)
	for name, id := range map[string]string{
		"never made": strings.Repeat("A", len(n.ID)), "empty": "", "wildcard": "*", "all": ">", "tokens": "a.b", "wild token": n.ID + ".*",
		"space": "a b", "spaces around": " " + n.ID + " ", "line end": n.ID + "\r\n", "NUL": n.ID + "\x00", "path": "../registry/x",
		"lower case": strings.ToLower(n.ID), "shorter": n.ID[1:], "longer": n.ID + "A", "bad UTF-8": "\xff\xfe", "JSON": `{"a":1}`,
		"5 KiB": strings.Repeat("A", 5<<10), "1 MiB": strings.Repeat("A", 1<<20), "2 MiB": strings.Repeat("A", 2<<20),
	} {
		_, err := one.Get(t.Context(), id)
		unknown(t, "get, "+name, err)
		unknown(t, "delete, "+name, one.Delete(t.Context(), id))
	}
	get(t, one, n.ID) // and the store lives on
}

func ownWrites(t *testing.T, one, _ *store.Sessions) {
	n := create(t, one)
	for range 50 {
		for _, level := range []string{"debug", "error"} {
			if err := one.Change(t.Context(), n.ID, func(s *store.Session) error { s.LogLevel = level; return nil }); err != nil {
				t.Fatal(err)
			}
			if got := get(t, one, n.ID).LogLevel; got != level {
				t.Fatalf("level %q right after %q was saved", got, level)
			}
		}
	}
	if err := one.Delete(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	_, err := one.Get(t.Context(), n.ID)
	unknown(t, "get after delete", err)
}

func bounds(t *testing.T, one, _ *store.Sessions) {
	n := &store.Session{Version: "2025-06-18", Capabilities: jsontext.Value(`{"x":"` + strings.Repeat("x", 100<<10) + `"}`)}
	if err := one.Create(t.Context(), n); !fault.Is(err, fault.TooLarge) {
		t.Errorf("100 KiB of capabilities: %v", err)
	}
}

func many(t *testing.T, one, two *store.Sessions) {
	shared := create(t, one)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			for range 10 {
				n := &store.Session{Version: "2025-06-18"}
				if err := one.Create(ctx, n); err != nil {
					t.Error(err)
					return
				}
				for _, id := range []string{n.ID, shared.ID} {
					if _, err := two.Get(ctx, id); err != nil {
						t.Error(err)
					}
				}
				if err := two.Delete(ctx, n.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
