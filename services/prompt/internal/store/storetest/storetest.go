// Package storetest has the tests that every implementation of store.Store must
// pass. Start at Run.
package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
)

// Open opens a store on the same database each time, with Limits for tenants.
type Open func(t *testing.T) store.Store

// Limits are the limits of tenants in stores that Open opens.
var Limits = store.Limits{Prompts: 3, Bytes: 1000}

// Run tests an implementation. fresh creates an empty database.
func Run(t *testing.T, fresh func(t *testing.T) Open) {
	for name, test := range map[string]func(t *testing.T, open Open){
		"what is written is read":                                 written,
		"versions count on, through a deletion too":               versions,
		"a change to another version than the present is refused": conflicts,
		"of concurrent changes to a version one is made":          concurrent,
		"a key makes a repetition have no effect":                 keys,
		"a key lasts as long as its change":                       keyOfFailure,
		"concurrent repetitions have one effect":                  concurrentKeys,
		"what does not fit the bus is refused":                    limits,
		"old versions and long deleted prompts are dropped":       dropped,
		"starters come once and are brought up to date":           seeds,
		"starters that somebody changed stay so":                  seedsKept,
		"replicas that seed at once seed once":                    seedsAtOnce,
		"a closed store says that it does not answer":             closed,
		"prompts are a tenant's":                                  tenants,
		"a tenant keeps so many prompts":                          tenantPrompts,
		"old versions of a tenant make room for new ones":         tenantBytes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func change(name string, seen int64, definition string) store.Change {
	c := store.Change{Name: name, Seen: seen, Author: "ada", Entry: 100}
	if definition != "" {
		c.Definition = []byte(definition)
	}
	return c
}

func write(t *testing.T, s store.Store, c store.Change) store.Version {
	t.Helper()
	v, err := s.Write(t.Context(), c)
	if err != nil {
		t.Fatalf("write %s to %d: %v", c.Name, c.Seen, err)
	}
	return v
}

// refused requires an error with a reason, and that nothing was done.
func refused(t *testing.T, err error, reason fault.Reason, says string) {
	t.Helper()
	f := fault.From(err)
	if err == nil || f.Reason != reason || f.Executed != fault.No || !strings.Contains(f.Message+string(f.Data), says) {
		t.Errorf("%v; want %s: %s", err, reason, says)
	}
}

// present returns the existing prompts and their versions.
func present(t *testing.T, s store.Store) (all []string, revision int64) {
	t.Helper()
	versions, revision, err := s.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		all = append(all, fmt.Sprintf("%s %d %s by %s", v.Name, v.Number, v.Definition, v.Author))
	}
	return all, revision
}

func has(t *testing.T, s store.Store, want ...string) {
	t.Helper()
	if all, _ := present(t, s); !slices.Equal(all, want) {
		t.Errorf("has %q, want %q", all, want)
	}
}

func written(t *testing.T, open Open) {
	s := open(t)
	has(t, s)
	before := time.Now().Add(-time.Minute)
	awkward := `{"text":"ünï \u0000 'quoted' {{x}} 文"}`
	b := write(t, s, change("b", 0, awkward))
	write(t, s, change("a", 0, `{"n":1}`))
	if b.Number != 1 || b.Name != "b" || b.Author != "ada" || b.Made.Before(before) || b.Made.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v", b)
	}
	got, err := s.Get(t.Context(), "", "b", 0)
	if err != nil || string(got.Definition) != awkward || got.Number != 1 || !got.Made.Equal(b.Made) || got.Author != "ada" {
		t.Errorf("%+v %v", got, err)
	}
	want := []string{`a 1 {"n":1} by ada`, "b 1 " + awkward + " by ada"}
	has(t, s, want...)
	_, revision := present(t, s)
	if n, err := s.Revision(t.Context()); err != nil || n != revision || n == 0 {
		t.Errorf("revision %d, with the prompts %d, %v", n, revision, err)
	}
	again := open(t) // another instance, or this one after a restart
	has(t, again, want...)
}

func versions(t *testing.T, open Open) {
	s := open(t)
	write(t, s, change("p", 0, "1"))
	write(t, s, change("p", 1, "2"))
	if v := write(t, s, change("p", 2, "")); v.Number != 3 {
		t.Errorf("deleted as %d", v.Number)
	}
	has(t, s)
	_, err := s.Get(t.Context(), "", "p", 0)
	refused(t, err, fault.UnknownPrompt, "p")
	_, err = s.Get(t.Context(), "", "p", 3)
	refused(t, err, fault.UnknownPrompt, "p")
	write(t, s, change("p", 0, "4"))
	has(t, s, "p 4 4 by ada")
	for n, want := range map[int64]string{0: "4", 1: "1", 2: "2", 4: "4"} {
		if v, err := s.Get(t.Context(), "", "p", n); err != nil || string(v.Definition) != want {
			t.Errorf("version %d: %+v %v", n, v, err)
		}
	}
	_, err = s.Get(t.Context(), "", "p", 1<<60)
	refused(t, err, fault.UnknownPrompt, "p")
	all, err := s.Versions(t.Context(), "", "p")
	if err != nil || len(all) != 4 || all[0].Number != 4 || all[3].Number != 1 || all[0].Author != "ada" || all[0].Made.IsZero() || all[0].Deleted || !all[1].Deleted {
		t.Errorf("%+v %v", all, err)
	}
	_, err = s.Versions(t.Context(), "", "q")
	refused(t, err, fault.UnknownPrompt, "q")
}

func conflicts(t *testing.T, open Open) {
	s := open(t)
	write(t, s, change("p", 0, "1"))
	write(t, s, change("p", 1, "2"))
	_, revision := present(t, s)
	for name, c := range map[string]struct {
		change store.Change
		reason fault.Reason
		says   string
	}{
		"create again":       {change("p", 0, "x"), fault.Conflict, "in version 2"},
		"update an old one":  {change("p", 1, "x"), fault.Conflict, `{"version":2}`},
		"update a later one": {change("p", 3, "x"), fault.Conflict, "now has version 2"},
		"delete an old one":  {change("p", 1, ""), fault.Conflict, "has version 2"},
		"update none":        {change("q", 1, "x"), fault.UnknownPrompt, "q"},
		"delete none":        {change("q", 1, ""), fault.UnknownPrompt, "q"},
		"delete unseen":      {change("p", 0, ""), fault.Conflict, "version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Write(t.Context(), c.change)
			refused(t, err, c.reason, c.says)
		})
	}
	has(t, s, "p 2 2 by ada")
	if _, now := present(t, s); now != revision {
		t.Errorf("revision %d after nothing, before %d", now, revision)
	}
}

func concurrent(t *testing.T, open Open) {
	stores := []store.Store{open(t), open(t)}
	write(t, stores[0], change("p", 0, "1"))
	var wg sync.WaitGroup
	var made atomic.Int64
	for i := range 10 {
		wg.Go(func() {
			_, err := stores[i%2].Write(t.Context(), change("p", 1, "2"))
			if err == nil {
				made.Add(1)
			} else {
				refused(t, err, fault.Conflict, "version")
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d were made", made.Load())
	}
}

func keys(t *testing.T, open Open) {
	s := open(t)
	keyed := func(scope, key, digest string, c store.Change) store.Change {
		c.Once = database.Key{Caller: scope, Key: key, Digest: []byte(digest)}
		return c
	}
	first := write(t, s, keyed("ada", "k", "d", change("p", 0, "1")))
	write(t, s, change("p", 1, "2"))
	again, err := s.Write(t.Context(), keyed("ada", "k", "d", change("p", 0, "1")))
	if err != nil || again.Number != 1 || again.Name != "p" || again.Author != "ada" || !again.Made.Equal(first.Made) {
		t.Errorf("%+v, want %+v; %v", again, first, err)
	}
	_, err = s.Write(t.Context(), keyed("ada", "k", "other", change("p", 2, "3")))
	refused(t, err, fault.Conflict, "idempotency key")
	has(t, s, "p 2 2 by ada")
	write(t, s, keyed("bob", "k", "other", change("p", 2, "3")))
	has(t, open(t), "p 3 3 by ada")
}

func keyOfFailure(t *testing.T, open Open) {
	s := open(t)
	c := change("p", 7, "1")
	c.Once = database.Key{Caller: "ada", Key: "k", Digest: []byte("d")}
	_, err := s.Write(t.Context(), c)
	refused(t, err, fault.UnknownPrompt, "p")
	c.Seen, c.Once.Digest = 0, []byte("another") // the key is unused: nothing was done with it
	write(t, s, c)
}

func concurrentKeys(t *testing.T, open Open) {
	stores := []store.Store{open(t), open(t)}
	c := change("p", 0, "1")
	c.Once = database.Key{Caller: "ada", Key: "k", Digest: []byte("d")}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if v, err := stores[i%2].Write(t.Context(), c); err != nil || v.Number != 1 {
				t.Errorf("%+v %v", v, err)
			}
		})
	}
	wg.Wait()
	has(t, stores[0], "p 1 1 by ada")
}

func limits(t *testing.T, open Open) {
	s := open(t)
	c := change("big", 0, "1")
	c.Entry = store.MaxCatalogue - 100*(store.MaxPrompts-1) + 1
	_, err := s.Write(t.Context(), func() store.Change { c := c; c.Entry = store.MaxCatalogue + 1; return c }())
	refused(t, err, fault.TooLarge, "bytes")
	write(t, s, c)
	var starters []store.Starter
	for i := range store.MaxPrompts - 2 {
		starters = append(starters, store.Starter{Name: fmt.Sprint(i), Definition: []byte("{}"), Entry: 100})
	}
	// In parts, because a slow machine needs more than one transaction's time for all.
	for part := range slices.Chunk(starters, 100) {
		if err := s.Seed(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Write(t.Context(), change("last", 0, "1"))
	refused(t, err, fault.TooLarge, fmt.Sprint(store.MaxCatalogue))
	c.Seen, c.Entry = 1, 100 // the old entry does not count
	write(t, s, c)
	write(t, s, change("last", 0, "1"))
	_, err = s.Write(t.Context(), change("one more", 0, "1"))
	refused(t, err, fault.TooLarge, fmt.Sprint(store.MaxPrompts))
	write(t, s, change("last", 1, "2"))
	write(t, s, change("last", 2, ""))
	write(t, s, change("one more", 0, "1"))
}

func dropped(t *testing.T, open Open) {
	s := open(t)
	for n := range store.KeptVersions + 2 {
		write(t, s, change("p", int64(n), "x"))
	}
	all, err := s.Versions(t.Context(), "", "p")
	if err != nil || len(all) != store.KeptVersions || all[0].Number != store.KeptVersions+2 {
		t.Errorf("%d versions, %v", len(all), err)
	}
	_, err = s.Get(t.Context(), "", "p", 1)
	refused(t, err, fault.UnknownPrompt, "p")
	if err := s.Seed(t.Context(), []store.Starter{{Name: "starter", Definition: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	write(t, s, change("starter", 1, ""))
	for n := range store.KeptDeleted + 1 {
		name := fmt.Sprint(n)
		write(t, s, change(name, 0, "x"))
		write(t, s, change(name, 1, ""))
	}
	gone := 0
	for n := range store.KeptDeleted + 1 {
		if _, err := s.Versions(t.Context(), "", fmt.Sprint(n)); err != nil {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d are forgotten", gone)
	}
	if _, err := s.Versions(t.Context(), "", "starter"); err != nil {
		t.Errorf("a deleted starter is forgotten, and would come back: %v", err)
	}
}

func starters(pairs ...string) (all []store.Starter) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, store.Starter{Name: pairs[i], Definition: []byte(pairs[i+1]), Entry: 10})
	}
	return all
}

func seed(t *testing.T, s store.Store, pairs ...string) {
	t.Helper()
	if err := s.Seed(t.Context(), starters(pairs...)); err != nil {
		t.Fatal(err)
	}
}

func seeds(t *testing.T, open Open) {
	s := open(t)
	seed(t, s, "a", "1", "b", "1")
	has(t, s, "a 1 1 by busbar", "b 1 1 by busbar")
	_, revision := present(t, s)
	seed(t, s, "a", "1", "b", "1")
	if _, now := present(t, s); now != revision {
		t.Errorf("revision %d after seeding the same, before %d", now, revision)
	}
	seed(t, s, "a", "2", "b", "1", "c", "1")
	has(t, s, "a 2 2 by busbar", "b 1 1 by busbar", "c 1 1 by busbar")
	seed(t, s, "a", "1", "b", "1") // an older release starts again
	has(t, s, "a 2 2 by busbar", "b 1 1 by busbar", "c 1 1 by busbar")
}

func seedsKept(t *testing.T, open Open) {
	s := open(t)
	seed(t, s, "changed", "1", "deleted", "1")
	write(t, s, change("changed", 1, "mine"))
	write(t, s, change("deleted", 1, ""))
	write(t, s, change("own", 0, "mine"))
	seed(t, s, "changed", "2", "deleted", "2", "own", "2")
	has(t, s, "changed 2 mine by ada", "own 1 mine by ada")
}

func seedsAtOnce(t *testing.T, open Open) {
	var wg sync.WaitGroup
	for _, s := range []store.Store{open(t), open(t), open(t)} {
		wg.Go(func() {
			if err := s.Seed(t.Context(), starters("a", "1", "b", "1")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	has(t, open(t), "a 1 1 by busbar", "b 1 1 by busbar")
}

func closed(t *testing.T, open Open) {
	s := open(t)
	s.Close()
	_, _, err := s.All(t.Context())
	refused(t, err, fault.Unavailable, "")
	_, err = s.Write(t.Context(), change("p", 0, "1"))
	refused(t, err, fault.Unavailable, "")
	_, err = s.Get(t.Context(), "", "p", 0)
	refused(t, err, fault.Unavailable, "")
	_, err = s.Revision(t.Context())
	refused(t, err, fault.Unavailable, "")
}
