package gateway_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

func sealer(t *testing.T, key byte) *store.Sealer {
	t.Helper()
	return store.NewSealer(func(_ context.Context, period uint32) ([]byte, error) {
		return bytes.Repeat([]byte{key, byte(period)}, 16), nil
	})
}

// remembering is a call that asks once; with state and answer it is the second.
func remembering(arguments string, state []byte) *gateway.Call {
	c := toolCall("remember", arguments)
	c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}
	if c.RequestState = state; state != nil {
		c.InputResponses = []byte(`{"ok":{"action":"accept"}}`)
	}
	return c
}

// reliability-security.md 75: the state that a client carries comes back unchanged, for the call
// that it was given for, or is refused.
func TestState(t *testing.T) {
	t.Parallel()
	w := start(t, func(w *world, cfg *gateway.Config) { cfg.Sealer, cfg.Authenticator = sealer(t, 1), w })
	ask := func(user string) []byte {
		c := remembering(`{"a":1}`, nil)
		c.Credentials.Bearer = user
		return bytes.Clone(w.works(t, c).InputRequired.GetRequestState())
	}
	state := ask("ada")
	if len(state) == 0 || bytes.Contains(state, []byte("secret")) {
		t.Fatalf("state %q", state)
	}
	if bytes.Equal(state, ask("ada")) {
		t.Error("equal states are sealed alike")
	}
	again := func(change func(c *gateway.Call)) *gateway.Call {
		c := remembering(`{"a":1}`, bytes.Clone(state))
		c.Credentials.Bearer = "ada"
		if change != nil {
			change(c)
		}
		return c
	}
	if got := string(w.works(t, again(nil)).Result.GetJson()); !strings.Contains(got, "kept secret") {
		t.Errorf("got %s", got)
	}
	ran := w.svc.Calls.Load()
	for name, change := range map[string]func(c *gateway.Call){
		"another user":      func(c *gateway.Call) { c.Credentials.Bearer = "bob" },
		"another tool":      func(c *gateway.Call) { c.Name = "ask" },
		"other arguments":   func(c *gateway.Call) { c.Arguments = []byte(`{"a":2}`) },
		"cut":               func(c *gateway.Call) { c.RequestState = c.RequestState[:len(c.RequestState)-4] },
		"cut to the nonce":  func(c *gateway.Call) { c.RequestState = c.RequestState[:16] },
		"shorter than that": func(c *gateway.Call) { c.RequestState = []byte("AAAA") },
		"longer":            func(c *gateway.Call) { c.RequestState = append(c.RequestState, "AAAA"...) },
		"not Base64":        func(c *gateway.Call) { c.RequestState = []byte("{}") },
		"in plain":          func(c *gateway.Call) { c.RequestState = []byte(`{"s":"c2VjcmV0"}`) },
	} {
		t.Run(name, func(t *testing.T) { w.fails(t, again(change), fault.InvalidParams, fault.No) })
	}
	for i := range state {
		w.fails(t, again(func(c *gateway.Call) {
			c.RequestState[i] = map[bool]byte{true: 'A', false: 'B'}[c.RequestState[i] != 'A']
		}), fault.InvalidParams, fault.No)
	}
	if n := w.svc.Calls.Load(); n != ran {
		t.Errorf("%d calls ran", n-ran)
	}
}

// Edges that have the key in common continue each other's calls.
func TestStateAtAnotherEdge(t *testing.T) {
	t.Parallel()
	var other, stranger *gateway.Gateway
	w := start(t, func(_ *world, cfg *gateway.Config) {
		cfg.Sealer = sealer(t, 1)
		other = gateway.New(*cfg)
		same := *cfg
		same.Sealer = sealer(t, 2)
		stranger = gateway.New(same)
	})
	state := w.works(t, remembering("{}", nil)).InputRequired.GetRequestState()
	if a, err := other.Do(context.Background(), remembering("{}", state), nil); err != nil || !strings.Contains(string(a.Result.GetJson()), "kept secret") {
		t.Errorf("got %v, %v", a, err)
	}
	if _, err := stranger.Do(context.Background(), remembering("{}", state), nil); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("an edge with another key: %v", err)
	}
}

// Keys are replaced, and earlier keys still open whatever they sealed that is not too old.
func TestStateOutlivesItsKey(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Now().Truncate(store.KeyLife).Add(store.KeyLife - time.Minute).UnixNano())
	s := sealer(t, 1)
	s.Now = func() time.Time { return time.Unix(0, now.Load()) }
	w := start(t, func(_ *world, cfg *gateway.Config) { cfg.Sealer = s })
	state := bytes.Clone(w.works(t, remembering("{}", nil)).InputRequired.GetRequestState())
	for _, c := range []struct {
		later time.Duration
		opens bool
	}{{0, true}, {30 * time.Minute, true}, {time.Hour, false}, {store.KeyLife, false}, {3 * store.KeyLife, false}} {
		now.Add(int64(c.later))
		again := remembering("{}", bytes.Clone(state))
		if c.opens {
			w.works(t, again)
		} else {
			w.fails(t, again, fault.InvalidParams, fault.No)
		}
	}
	if fresh := w.works(t, remembering("{}", nil)).InputRequired.GetRequestState(); bytes.Equal(fresh[:5], state[:5]) {
		t.Error("the same key seals")
	}
}
