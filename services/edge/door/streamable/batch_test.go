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

// The batches of 2025-03-26 are answered, each message as if it came alone, and no others.
func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.Initialize(t, mcp.V20250326, "{}")
	batch := func(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping := edgetest.Legacy("1", "ping", "")
	r := w.Post(t, h, batch(
		edgetest.LegacyCall("1", "echo", `{"a":1}`), initialized, edgetest.LegacyCall(`"two"`, "nothing", `{}`),
		`{"jsonrpc":"2.0","id":3}`, edgetest.Legacy("4", "initialize", `"protocolVersion":"2025-03-26"`), edgetest.Legacy("5", "ping", ""),
	))
	var answers []edgetest.Message
	if err := json.Unmarshal(r.Bytes, &answers); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%v: %d %s", err, r.StatusCode, r.Bytes)
	}
	said := ""
	for _, m := range answers {
		said += fmt.Sprintf("%s:%d ", m.ID, m.Code())
	}
	if want := `1:0 "two":-32602 3:-32600 4:-32600 5:0 `; said != want {
		t.Errorf("got %s, want %s", said, want)
	}
	if r := w.Post(t, h, batch(initialized)); r.StatusCode != http.StatusAccepted || len(r.Bytes) > 0 {
		t.Errorf("notifications only: %d %s", r.StatusCode, r.Bytes)
	}
	for name, body := range map[string]string{"empty": `[]`, "twice the member": `[{"a":1,"a":2}]`, "cut": `[{}`, "too many": batch(strings.Split(strings.Repeat(ping+"\n", 17), "\n")[:17]...)} {
		if r := w.Post(t, h, body); r.StatusCode != http.StatusBadRequest && r.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Bytes)
		}
	}
	for _, h := range []header{w.Initialize(t, mcp.V20241105, "{}"), w.Initialize(t, mcp.V20250618, "{}"), w.Initialize(t, mcp.V20251125, "{}"), modern("ping", ""), {}} {
		w.Post(t, h, batch(ping)).Refused(t, http.StatusBadRequest, mcp.CodeInvalidRequest, "invalid_request")
	}
}
