package streamable_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestBatch answers the batches of 2025-03-26, and no others.
func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.Initialize(t, mcp.V20250326, "{}")
	batch := func(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }
	read := func(t *testing.T, r edgetest.Reply) (out []edgetest.Message) {
		t.Helper()
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", r.StatusCode, r.Bytes)
		}
		if err := json.Unmarshal(r.Bytes, &out); err != nil {
			t.Fatalf("%v: %s", err, r.Bytes)
		}
		return out
	}
	t.Run("each as if alone", func(t *testing.T) {
		t.Parallel()
		got := read(t, w.Post(t, h, batch(
			edgetest.LegacyCall("1", "echo", `{"a":1}`),
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			edgetest.LegacyCall(`"two"`, "nothing", `{}`),
			`{"jsonrpc":"2.0","id":3}`,
			edgetest.Legacy("4", "initialize", `"protocolVersion":"2025-03-26"`),
			edgetest.Legacy("5", "ping", ""),
		)))
		var said []string
		for _, m := range got {
			code := 0
			if m.Error != nil {
				code = m.Error.Code
			}
			said = append(said, fmt.Sprintf("%s:%d", m.ID, code))
		}
		if want := `1:0 "two":-32602 3:-32600 4:-32600 5:0`; strings.Join(said, " ") != want {
			t.Errorf("got %v, want %s", said, want)
		}
	})
	t.Run("notifications only", func(t *testing.T) {
		t.Parallel()
		if r := w.Post(t, h, batch(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); r.StatusCode != http.StatusAccepted || len(r.Bytes) > 0 {
			t.Errorf("%d %s", r.StatusCode, r.Bytes)
		}
	})
	for name, body := range map[string]string{"empty": `[]`, "twice the member": `[{"a":1,"a":2}]`, "cut": `[{}`, "too many": batch(strings.Split(strings.Repeat(edgetest.Legacy("1", "ping", "")+"\n", 17), "\n")[:17]...)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := w.Post(t, h, body); r.StatusCode != http.StatusBadRequest && r.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%d %s", r.StatusCode, r.Bytes)
			}
		})
	}
	t.Run("other versions", func(t *testing.T) {
		t.Parallel()
		for _, h := range []header{w.Initialize(t, mcp.V20241105, "{}"), w.Initialize(t, mcp.V20250618, "{}"), w.Initialize(t, mcp.V20251125, "{}"), modern("ping", ""), {}} {
			w.Post(t, h, batch(edgetest.Legacy("1", "ping", ""))).Refused(t, http.StatusBadRequest, mcp.CodeInvalidRequest, "invalid_request")
		}
	})
}
