package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestServiceComesAndGoes is the newcomer's third step: a service joins from
// another process, its tool appears to clients that are connected already, and
// it goes again, in good order and by force.
func TestServiceComesAndGoes(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	clients := make([]*client, len(kinds))
	for i, k := range kinds {
		clients[i] = connect(t, k, place{url: dev.mcp, stdio: []string{"--nats", dev.nats}})
		if slices.Contains(clients[i].names(t), "greet") {
			t.Fatal("greet is there before hello is")
		}
	}
	each := func(name string, do func(t *testing.T, c *client)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			for i, k := range kinds {
				t.Run(k.String(), func(t *testing.T) {
					t.Parallel()
					do(t, clients[i])
				})
			}
		})
	}
	arrives := func(t *testing.T, c *client) {
		await(t, "list_changed", c.changed)
		eventually(t, "greet is listed", func() bool { return slices.Contains(c.names(t), "greet") })
		if got := textOf(c.call(t, "greet", map[string]any{"name": "Ada"})); !strings.Contains(got, "Hello, Ada!") {
			t.Errorf("greet said %q", got)
		}
	}
	vanishes := func(limit time.Duration) func(t *testing.T, c *client) {
		return func(t *testing.T, c *client) {
			began := time.Now()
			refusals := callUntil(t, c, limit)
			select {
			case <-c.changed:
			case <-time.After(limit + slack - time.Since(began)):
				t.Fatalf("no list_changed in %v", limit)
			}
			// The change may be an earlier one, heard late: the SDK's client keeps a list until it
			// hears of the next one, or for 5 s.
			eventually(t, "greet is not listed", func() bool { return !slices.Contains(c.names(t), "greet") })
			t.Logf("gone after %v, %d calls refused before", time.Since(began).Round(time.Millisecond), refusals)
		}
	}

	hello := start(t, "hello", "--nats", dev.nats)
	each("joins", arrives)
	forget(clients)
	hello.signal(syscall.SIGTERM)
	each("is asked to stop", vanishes(bustest.Promptly))
	if code := hello.wait(5 * time.Second); code != 0 {
		t.Errorf("hello exited with %d", code)
	}

	hello = start(t, "hello", "--nats", dev.nats)
	each("joins again", arrives)
	forget(clients)
	hello.kill()
	each("is killed", vanishes(20*time.Second))
}

// forget drops changes that clients heard of, so the next one they hear of is new.
func forget(clients []*client) {
	for _, c := range clients {
		for len(c.changed) > 0 {
			<-c.changed
		}
	}
}

// callUntil calls greet until it is unknown. Meanwhile calls must fail fast,
// and say that nothing is there and nothing ran. It returns how many did.
func callUntil(t *testing.T, c *client, limit time.Duration) int {
	t.Helper()
	refused := 0
	for deadline := time.Now().Add(limit + slack); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		began := time.Now()
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"name": "Ada"}})
		if took := time.Since(began); took > 1500*time.Millisecond+slack {
			t.Errorf("a call to a service that is gone took %v", took)
		}
		if err == nil {
			continue
		}
		wire := wireError(err)
		if wire == nil {
			t.Fatalf("no JSON-RPC error: %v", err)
		}
		var data struct{ Reason, Executed string }
		_ = json.Unmarshal(wire.Data, &data)
		switch {
		case data.Reason == "unknown_tool":
			return refused
		case data.Reason == "unavailable" && data.Executed == "no" && strings.Contains(wire.Message, "hello"):
			refused++
		default:
			t.Errorf("refused as %q, executed %q: %s", data.Reason, data.Executed, wire.Message)
		}
	}
	t.Errorf("greet is still known after %v", limit)
	return refused
}
