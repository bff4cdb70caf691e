package gateway_test

import (
	"fmt"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// TestCache answers repeated calls, for the callers and the time that the tool allows.
func TestCache(t *testing.T) {
	t.Parallel()
	cache := gateway.NewCache()
	t.Cleanup(cache.Close)
	w := start(t, func(w *world, cfg *gateway.Config) { cfg.Authenticator, cfg.Cache = w, cache })
	call := func(tool, who, arguments string) string {
		c := toolCall(tool, arguments)
		c.Credentials.Bearer = who
		return string(w.works(t, c).Result.GetJson())
	}
	first := call("shared", "ada", `{"a":1,"b":"é"}`)
	for name, c := range map[string]struct {
		tool, who, arguments string
		same                 bool
	}{
		"written in another way": {"shared", "ada", `{ "b":"\u00e9", "a":1 }`, true},
		"by somebody else":       {"shared", "bob", `{"a":1,"b":"é"}`, true},
		"other arguments":        {"shared", "ada", `{"a":1,"b":"e"}`, false},
		"another tool":           {"kept", "ada", `{"a":1,"b":"é"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(c.tool, c.who, c.arguments); (got == first) != c.same {
				t.Errorf("got %s after %s", got, first)
			}
		})
	}
	t.Run("H7 numbers count as they are written", func(t *testing.T) {
		for _, pair := range [][2]string{
			{"9007199254740993", "9007199254740992"}, {"123456789012345678901", "123456789012345678902"},
			{"0.1", "0.1000000000000000055"}, {"1e400", "2e400"}, {"-0", "0"}, {"1.0", "1"}, {"1e2", "100"},
		} {
			for _, form := range []string{`{"x":%s}`, `{"x":[{"y":%s}]}`} {
				one, other := call("shared", "ada", fmt.Sprintf(form, pair[0])), call("shared", "ada", fmt.Sprintf(form, pair[1]))
				if one == other {
					t.Errorf("%s gets the result of %s", pair[1], pair[0])
				}
				if again := call("shared", "ada", fmt.Sprintf(" "+form, pair[0])); again != one {
					t.Errorf("%s is not kept", pair[0])
				}
			}
		}
	})
	t.Run("each principal has its own, unless the tool says otherwise", func(t *testing.T) {
		if one, two := call("kept", "ada", "{}"), call("kept", "bob", "{}"); one == two {
			t.Errorf("both got %s", one)
		}
	})
	t.Run("no longer than the tool says", func(t *testing.T) {
		old := call("kept", "ada", `{"x":1}`)
		bustest.Eventually(t, "it is asked again", func() bool { return call("kept", "ada", `{"x":1}`) != old })
	})
	t.Run("no longer than the result says", func(t *testing.T) {
		old := call("shared", "ada", `{"soon":1}`)
		bustest.Eventually(t, "it is asked again", func() bool { return call("shared", "ada", `{"soon":1}`) != old })
		if one, two := call("shared", "ada", `{"never":1}`), call("shared", "ada", `{"never":1}`); one == two {
			t.Error("what is old at once is kept")
		}
	})
	t.Run("failures are not kept", func(t *testing.T) {
		before := w.svc.Calls.Load()
		call("shared", "ada", `{"fail":1}`)
		call("shared", "ada", `{"fail":1}`)
		if n := w.svc.Calls.Load() - before; n != 2 {
			t.Errorf("%d calls ran", n)
		}
	})
	t.Run("tools that do not let it", func(t *testing.T) {
		before := w.svc.Calls.Load()
		call("echo", "ada", `{}`)
		call("echo", "ada", `{}`)
		if n := w.svc.Calls.Load() - before; n != 2 {
			t.Errorf("%d calls ran", n)
		}
	})
	if hits, misses := cache.Counts(); hits < 2 || misses < 5 {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}

// F5: a result from the cache counts for the caller that asked for it. So a party that holds its
// half of the budget leaves the other half to others.
func TestF5CachedResultsCountForTheCaller(t *testing.T) {
	t.Parallel()
	cache := gateway.NewCache()
	t.Cleanup(cache.Close)
	room := budget.New(4 << 10)
	w := start(t, func(w *world, cfg *gateway.Config) { cfg.Authenticator, cfg.Cache, cfg.Budget = w, cache, room })
	ask := func(who string) error {
		ctx, release := room.Open(t.Context(), 0)
		t.Cleanup(release) // nobody reads it before the end
		c := toolCall("shared", `{"a":1}`)
		c.Credentials.Bearer = who
		_, err := w.gateway.Do(ctx, c, nil)
		return err
	}
	var err error
	for range 4 << 10 { // each has some bytes
		if err = ask("ada"); err != nil {
			break
		}
	}
	if fault.From(err) == nil || fault.From(err).Reason != fault.Overloaded {
		t.Fatalf("one party holds %d bytes of %d: %v", room.Held(), 4<<10, err)
	}
	if room.Held() > 2<<10 {
		t.Errorf("one party holds %d bytes of %d", room.Held(), 4<<10)
	}
	if err := ask("bob"); err != nil {
		t.Errorf("another party: %v", err)
	}
	if hits, _ := cache.Counts(); hits < 2 {
		t.Errorf("%d hits", hits)
	}
}
