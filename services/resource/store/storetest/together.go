package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

func repeated(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	once := func(key, digest string) database.Key {
		return database.Key{Caller: "c", Key: key, Digest: []byte(digest)}
	}
	create := func(o database.Key) (store.Resource, error) {
		return s.Create(ctx, store.Resource{URI: "r:1", Name: "n"}, Text("x"), o)
	}
	first, err := create(once("k1", "d1"))
	if err != nil {
		t.Fatal(err)
	}
	text := Text("y")
	change := store.Change{Content: &text, Append: true}
	changed, err := s.Update(ctx, "", "r:1", 0, change, once("k2", "d2"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := create(once("k1", "d1"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "create again", again, first)
		if again, err = open().Update(ctx, "", "r:1", 0, change, once("k2", "d2")); err != nil {
			t.Fatal(err)
		}
		same(t, "update again", again, changed)
	}
	_, err = create(once("k1", "other"))
	refused(t, "another write with the key", err, fault.Conflict, "")
	// A failed write may be repeated with its key.
	_, err = s.Delete(ctx, "", "r:1", 9, once("k3", "d3"))
	refused(t, "delete", err, fault.Conflict, "")
	for range 2 {
		gone, err := s.Delete(ctx, "", "r:1", 2, once("k3", "d3"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "deleted", gone, changed)
	}
	if _, err := create(database.Key{Caller: "someone else", Key: "k1", Digest: []byte("other")}); err != nil {
		t.Errorf("somebody else's key: %v", err)
	}
	if got := drain(t, s); got != "r:1 created 1, r:1 updated 2, r:1 deleted 2, r:1 created 1" {
		t.Errorf("events: %s", got)
	}
	_, err = create(database.Key{Caller: "c", Key: strings.Repeat("k", 9000)})
	refused(t, "a long key", err, fault.InvalidParams, "")
}

// contention makes writers increment a number, each reading it first.
func contention(t *testing.T, open func() store.Store) {
	stores, ctx := []store.Store{open(), open()}, t.Context()
	Make(t, stores[0], "", "c:1", "")
	const writers, each = 8, 5
	var conflicts atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		s := stores[w%2]
		wg.Go(func() {
			for done := 0; done < each; {
				r, c, err := s.Read(ctx, "", "c:1", nil)
				if err != nil {
					t.Error(err)
					return
				}
				next := Text(string(c.Bytes) + "x")
				switch _, err := s.Update(ctx, "", "c:1", r.Revision, store.Change{Content: &next}, database.Key{}); {
				case err == nil:
					done++
				case fault.Is(err, fault.Conflict):
					conflicts.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r, c, err := stores[0].Read(ctx, "", "c:1", nil)
	if err != nil || len(c.Bytes) != writers*each || r.Revision != writers*each+1 {
		t.Errorf("%d of %d updates are there at revision %d, %d conflicts; %v", len(c.Bytes), writers*each, r.Revision, conflicts.Load(), err)
	}
}

func sameKey(t *testing.T, open func() store.Store) {
	stores, ctx := []store.Store{open(), open()}, t.Context()
	Make(t, stores[0], "", "k:1", "")
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			x := Text("x")
			r, err := stores[w%2].Update(ctx, "", "k:1", 0, store.Change{Content: &x, Append: true}, database.Key{Key: "k", Digest: []byte("d")})
			if err != nil || r.Revision != 2 {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	wg.Wait()
	if _, c, err := stores[0].Read(ctx, "", "k:1", nil); err != nil || string(c.Bytes) != "x" {
		t.Errorf("%q %v", c.Bytes, err)
	}
}

func parallel(t *testing.T, open func() store.Store) {
	stores, ctx := []store.Store{open(), open()}, t.Context()
	var wg sync.WaitGroup
	for w := range 8 {
		s := stores[w%2]
		wg.Go(func() {
			for i := range 10 {
				uri := fmt.Sprintf("w:%d/%d", w, i)
				if _, err := s.Create(ctx, store.Resource{URI: uri, Name: "n"}, Text(uri), database.Key{}); err != nil {
					t.Error(err)
				}
				y := Text(" again")
				if _, err := s.Update(ctx, "", uri, 1, store.Change{Content: &y, Append: true}, database.Key{}); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if _, err := s.Delete(ctx, "", uri, 2, database.Key{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if page, more, err := stores[1].List(ctx, "", store.Query{}, "", 100); err != nil || more || len(page) != 40 {
		t.Errorf("%d are left, %v", len(page), err)
	}
	if n := strings.Count(drain(t, stores[0]), "w:"); n != 8*10*2+40 {
		t.Errorf("%d events", n)
	}
}

func relay(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	for i := range 5 {
		Make(t, s, "t", fmt.Sprintf("e:%d", i), "x")
	}
	title, x := "T", Text("x")
	for _, c := range []store.Change{{Content: &x}, {Title: &title}} {
		if _, err := s.Update(ctx, "t", "e:1", 0, c, database.Key{}); err != nil {
			t.Fatal(err)
		}
	}
	away := errors.New("the bus is away")
	var refused []store.Event
	if n, err := s.Relay(ctx, 3, func(_ ctxt, events []store.Event) error {
		refused = events
		return away
	}); n != 0 || !errors.Is(err, away) || len(refused) != 3 {
		t.Errorf("%d, %v, %v", n, err, refused)
	}
	// Another process takes over, and begins with the same event.
	s = open()
	var all []store.Event
	for {
		n, err := s.Relay(ctx, 3, func(_ ctxt, events []store.Event) error {
			all = append(all, events...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	var want []store.Event
	for i := range 5 {
		want = append(want, store.Event{Tenant: "t", URI: fmt.Sprintf("e:%d", i), Kind: store.Created, Revision: 1, Listed: true})
	}
	want = append(want, store.Event{Tenant: "t", URI: "e:1", Kind: store.Updated, Revision: 2},
		store.Event{Tenant: "t", URI: "e:1", Kind: store.Updated, Revision: 3, Listed: true})
	same(t, "events", all, want)
}

func oneRelay(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	Make(t, s, "", "o:1", "x")
	n, err := s.Relay(ctx, 10, func(_ ctxt, _ []store.Event) error {
		if n, err := s.Relay(ctx, 10, func(ctxt, []store.Event) error {
			t.Error("a second relay at the same time")
			return nil
		}); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		// Writers do not wait for the relay.
		Make(t, s, "", "o:2", "x")
		return nil
	})
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := drain(t, s); got != "o:2 created 1" {
		t.Errorf("left: %s", got)
	}
}
