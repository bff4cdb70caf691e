package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// keyedCall is a call as Once sees it.
type keyedCall struct {
	tool, tenant, caller, key string
	replayed                  int
}

func (c *keyedCall) Tool() string           { return c.tool }
func (c *keyedCall) Tenant() string         { return c.tenant }
func (c *keyedCall) Principal() string      { return c.caller }
func (c *keyedCall) IdempotencyKey() string { return c.key }
func (c *keyedCall) Replayed()              { c.replayed++ }

func placed(key string) *keyedCall { return &keyedCall{tool: "place", caller: "ada", key: key} }

// shop is a service with a ledger: one row for each effect.
type shop struct {
	t    *testing.T
	db   database.Database
	keys *database.Keys
}

type order struct {
	Item string `json:"item"`
}

type receipt struct {
	Number int    `json:"number"`
	Item   string `json:"item"`
	Filler string `json:"filler,omitzero"`
}

func openShop(t *testing.T, cfg database.Config, limits database.KeyLimits) *shop {
	t.Helper()
	cfg.Migrations = fstest.MapFS{"both/00001_ledger.sql": {Data: []byte("-- +goose Up\nCREATE TABLE ledger (item text NOT NULL);\n")}}
	s := &shop{t: t, db: open(t, cfg)}
	s.use(s.db, limits)
	return s
}

func (s *shop) use(db database.Database, limits database.KeyLimits) {
	s.t.Helper()
	keys, err := database.OpenKeys(s.t.Context(), db, "test", limits)
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys = keys
}

// place is a handler that places an order.
func (s *shop) place(ctx context.Context, call *keyedCall, in order, filler string) (receipt, error) {
	return database.Once(ctx, s.keys, call, in, func(ctx context.Context, tx database.Tx) (receipt, error) {
		if _, err := tx.Exec(ctx, "INSERT INTO ledger (item) VALUES ($1)", in.Item); err != nil {
			return receipt{}, err
		}
		r := receipt{Item: in.Item, Filler: filler}
		_, err := database.One(ctx, tx, "SELECT count(*) FROM ledger", nil, &r.Number)
		return r, err
	})
}

func (s *shop) works(call *keyedCall, item string) receipt {
	s.t.Helper()
	r, err := s.place(s.t.Context(), call, order{item}, "")
	if err != nil {
		s.t.Fatalf("%+v: %v", call, err)
	}
	return r
}

func (s *shop) fails(call *keyedCall, item string, reason fault.Reason, executed fault.Executed) {
	s.t.Helper()
	_, err := s.place(s.t.Context(), call, order{item}, "")
	if f := fault.From(err); f == nil || f.Reason != reason || f.Executed != executed {
		s.t.Fatalf("%+v: %+v (%v), want %s, executed %s", call, f, err, reason, executed)
	}
}

func (s *shop) ran(item string) int {
	s.t.Helper()
	return count(s.t, s.db, "SELECT count(*) FROM ledger WHERE item = $1", item)
}

func (s *shop) kept() int {
	s.t.Helper()
	return count(s.t, s.db, "SELECT count(*) FROM test_call")
}

// A key has one effect and one answer, and belongs to its caller.
func TestOnce(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.DefaultKeyLimits)
		first := placed("k")
		if r := s.works(first, "tea"); r != (receipt{Number: 1, Item: "tea"}) || first.replayed != 0 {
			t.Errorf("%+v, replayed %d times", r, first.replayed)
		}
		s.works(placed(""), "milk")
		s.works(placed(""), "milk")
		// Another instance has the answer, too.
		other := openShop(t, cfg, database.DefaultKeyLimits)
		again := placed("k")
		if r := other.works(again, "tea"); r != (receipt{Number: 1, Item: "tea"}) || again.replayed != 1 {
			t.Errorf("repeated: %+v, replayed %d times", r, again.replayed)
		}
		s.fails(placed("k"), "coffee", fault.Conflict, fault.No)
		s.fails(&keyedCall{tool: "cancel", caller: "ada", key: "k"}, "tea", fault.Conflict, fault.No)
		s.works(&keyedCall{tool: "place", caller: "bob", key: "k"}, "tea")
		s.works(&keyedCall{tool: "place", tenant: "acme", caller: "ada", key: "k"}, "tea")
		if tea, milk, coffee := s.ran("tea"), s.ran("milk"), s.ran("coffee"); tea != 3 || milk != 2 || coffee != 0 {
			t.Errorf("%d, %d and %d effects", tea, milk, coffee)
		}
		s.fails(placed(strings.Repeat("k", 3000)), "tea", fault.InvalidParams, fault.No)

		// Any name can own a key, and no two names share one.
		long := strings.Repeat("n", 300)
		for i, caller := range []string{"nul\x00", "\xff", long, long + "n", "\x7f" + "1"} {
			for range 2 {
				s.works(&keyedCall{tool: "place", tenant: caller, caller: caller, key: "k"}, fmt.Sprint("names", i))
			}
			if n := s.ran(fmt.Sprint("names", i)); n != 1 {
				t.Errorf("%d effects of %q", n, caller)
			}
		}
	})
}

// After a failed change its key is free, even for other arguments.
func TestOnceFailed(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.DefaultKeyLimits)
		sold := errors.New("sold out")
		call := placed("k")
		if _, err := database.Once(t.Context(), s.keys, call, order{"tea"}, func(ctx context.Context, tx database.Tx) (receipt, error) {
			if _, err := tx.Exec(ctx, "INSERT INTO ledger (item) VALUES ('tea')"); err != nil {
				return receipt{}, err
			}
			return receipt{}, sold
		}); !errors.Is(err, sold) {
			t.Fatal(err)
		}
		if s.ran("tea") != 0 || s.kept() != 0 {
			t.Errorf("%d effects and %d keys of a change that failed", s.ran("tea"), s.kept())
		}
		s.works(placed("k"), "coffee")
	})
}

// If many calls with one key reach several instances concurrently, one runs, and all return its
// answer.
func TestOnceAtOnce(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		shops := []*shop{openShop(t, cfg, database.DefaultKeyLimits), openShop(t, cfg, database.DefaultKeyLimits)}
		const keys, each = 5, 8
		var wg sync.WaitGroup
		var replayed atomic.Int64
		for i := range keys * each {
			wg.Go(func() {
				c, item := placed(fmt.Sprint(i%keys)), fmt.Sprint("item", i%keys)
				r, err := shops[i/keys%2].place(t.Context(), c, order{item}, "")
				if err != nil || r.Item != item {
					t.Errorf("%+v %v", r, err)
				}
				replayed.Add(int64(c.replayed))
			})
		}
		wg.Wait()
		for i := range keys {
			if n := shops[0].ran(fmt.Sprint("item", i)); n != 1 {
				t.Errorf("%d effects of key %d", n, i)
			}
		}
		if n := replayed.Load(); n != keys*(each-1) {
			t.Errorf("%d of %d were repetitions", n, keys*each)
		}
	})
}

// A commit without an answer is settled by the key, whether it was made or not.
func TestOnceCommitLost(t *testing.T) {
	for name, commits := range map[string][]bool{
		"it was made":             {true},
		"it was not made":         {false},
		"lost again, and made":    {false, true},
		"made, and its look, too": {true, true},
		"not made, and again not": {false, false},
		"answered":                {},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(t *testing.T, cfg database.Config) {
				s := openShop(t, cfg, database.DefaultKeyLimits)
				lossy := &database.Lossy{Database: s.db}
				s.use(lossy, database.DefaultKeyLimits)
				lossy.Commits = commits
				first, again := placed("k"), placed("k")
				if r := s.works(first, "tea"); r.Number != 1 || first.replayed != 0 {
					t.Errorf("%+v, replayed %d times: it is the call's own effect", r, first.replayed)
				}
				if r := s.works(again, "tea"); r.Number != 1 || again.replayed != 1 {
					t.Errorf("repeated: %+v, replayed %d times", r, again.replayed)
				}
				if n := s.ran("tea"); n != 1 {
					t.Errorf("%d effects", n)
				}
			})
		})
	}
}

// While the database is away it is unknown whether an earlier call with a key ran. Without a key,
// nothing ran.
func TestOnceAway(t *testing.T) {
	t.Parallel()
	server := databasetest.Own(t)
	s := openShop(t, database.Config{URL: server.URL(), Owner: "test", Holds: "things", Work: patient}, database.DefaultKeyLimits)
	s.works(placed("k"), "tea")
	server.Kill()
	s.fails(placed("k"), "tea", fault.Unavailable, fault.Unknown)
	s.fails(placed("new"), "tea", fault.Unavailable, fault.Unknown)
	s.fails(placed(""), "tea", fault.Unavailable, fault.No)
}

// Keys expire, and expired keys do not pile up.
func TestOnceExpires(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.KeyLimits{Life: time.Hour})
		var ahead time.Duration
		s.keys.SetClock(func() time.Time { return time.Now().Add(ahead) })
		for i := range 3 * database.SweepEvery {
			s.works(placed(fmt.Sprint("old", i)), "tea")
		}
		ahead = 59 * time.Minute
		if c := placed("old1"); s.works(c, "tea").Number != 2 || c.replayed != 1 {
			t.Error("a key was forgotten before its time")
		}
		ahead = 2 * time.Hour
		if c := placed("old1"); s.works(c, "coffee").Item != "coffee" || c.replayed != 0 {
			t.Error("a key that is over counts")
		}
		for i := range database.SweepEvery {
			s.works(placed(fmt.Sprint("new", i)), "milk")
		}
		if n := s.kept(); n != database.SweepEvery+1 {
			t.Errorf("%d keys are kept, of %d whose time is not over", n, database.SweepEvery+1)
		}
	})
}

// Expired keys do not count, even before they are deleted: a caller that had reached the limit has
// room again.
func TestOnceSharesExpire(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.KeyLimits{Life: time.Hour, Keys: 4})
		var ahead time.Duration
		s.keys.SetClock(func() time.Time { return time.Now().Add(ahead) })
		for i := range 2 {
			s.works(placed(fmt.Sprint("old", i)), "tea")
		}
		s.fails(placed("more"), "tea", fault.RateLimited, fault.No)
		ahead = 2 * time.Hour
		for i := range 2 {
			s.works(placed(fmt.Sprint("new", i)), "milk")
		}
		s.fails(placed("more"), "tea", fault.RateLimited, fault.No)
	})
}

// A tenant has a share of keys and answers, and a caller half of it.
func TestOnceShares(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.KeyLimits{Keys: 6})
		call := func(tenant, caller, key string) *keyedCall {
			return &keyedCall{tool: "place", tenant: tenant, caller: caller, key: key}
		}
		for i := range 3 {
			s.works(call("acme", "ada", fmt.Sprint(i)), "tea")
		}
		s.fails(call("acme", "ada", "more"), "tea", fault.RateLimited, fault.No)
		for i := range 3 {
			s.works(call("acme", "bob", fmt.Sprint(i)), "tea")
		}
		s.fails(call("acme", "eve", "more"), "tea", fault.RateLimited, fault.No)
		s.works(call("acme", "ada", "0"), "tea") // an earlier call has its answer
		s.works(call("acme", "ada", ""), "tea")
		s.works(call("beta", "ada", "0"), "tea")
		if n := s.ran("tea"); n != 8 {
			t.Errorf("%d effects", n)
		}
		// Another instance counts what is there.
		s.use(s.db, database.KeyLimits{Keys: 6})
		s.fails(call("acme", "ada", "more"), "tea", fault.RateLimited, fault.No)

		s.use(s.db, database.KeyLimits{Bytes: 4000})
		for i := range 3 { // each 1 kB
			c := call("gamma", "ada", fmt.Sprint(i))
			if _, err := s.place(t.Context(), c, order{"milk"}, strings.Repeat("x", 900)); err != nil {
				t.Fatal(err)
			}
		}
		s.works(call("gamma", "ada", "0"), "milk")
		s.fails(call("gamma", "ada", "2"), "milk", fault.ResultTooLarge, fault.Yes)
		if n := s.ran("milk"); n != 3 {
			t.Errorf("%d effects", n)
		}
	})
}

// A call whose answer is too large to be kept also runs once.
func TestOnceLarge(t *testing.T) {
	on(t, func(t *testing.T, cfg database.Config) {
		s := openShop(t, cfg, database.KeyLimits{})
		if _, err := s.place(t.Context(), placed("k"), order{"tea"}, strings.Repeat("x", database.MaxAnswer)); err != nil {
			t.Fatal(err)
		}
		s.fails(placed("k"), "tea", fault.ResultTooLarge, fault.Yes)
		if n := s.ran("tea"); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}
