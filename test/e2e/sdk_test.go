package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/test/testservice"
)

// TestSDK puts the official Go client, modern and legacy and over every transport, before a whole
// Busbar with a second edge. test/matrix has the client's other features, in every version.
func TestSDK(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	serve(t, dev.nats, testservice.New(&testservice.Ledger{}))
	_, second := startEdge(t, dev.nats)
	for _, url := range []string{dev.mcp, second.mcp} {
		eventually(t, "the edge has the tools", func() bool {
			return send(t, modernCall(t, url, "1", "echo", `{"value":"x"}`)).message.Error == nil
		})
	}
	at := place{url: dev.mcp, stdio: []string{"--nats", dev.nats}, posts: second.mcp}
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			c := connect(t, k, at)
			t.Run("list", func(t *testing.T) { sdkList(t, c) })
			t.Run("text", func(t *testing.T) { sdkText(t, c) })
			t.Run("errors", func(t *testing.T) { sdkErrors(t, c, k) })
			t.Run("large", func(t *testing.T) { sdkLarge(t, c) })
		})
	}
}

// TestSDKOwnBus is the desktop client's way: stdio with nothing around it.
func TestSDKOwnBus(t *testing.T) {
	t.Parallel()
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := connect(t, kind{"stdio", version}, place{stdio: []string{"--data-dir", t.TempDir()}})
			sdkList(t, c)
			sdkText(t, c)
		})
	}
}

func sdkList(t *testing.T, c *client) {
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.InputSchema == nil {
			t.Errorf("%s has no input schema", tool.Name)
		}
	}
	names := c.names(t)
	for _, want := range []string{"analyzeText", "summarizeText", "extractEntities", "text_processor"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not listed: %v", want, names)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("the list has no stable order: %v", names)
	}
}

// sdkText has text cross the bus intact, and the content of a result be its structured content.
func sdkText(t *testing.T, c *client) {
	r := c.call(t, "analyzeText", map[string]any{"text": "Это пример текста для анализа. Он содержит несколько предложений. Żółw."})
	words, _ := r.StructuredContent.(map[string]any)["topWords"].([]any)
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil || r.IsError || len(words) == 0 || !sameJSON(t, raw, []byte(textOf(r))) || !strings.Contains(textOf(r), `"sentenceCount":3`) {
		t.Errorf("%v %s", err, textOf(r))
	}
}

func sdkErrors(t *testing.T, c *client, k kind) {
	failed := c.call(t, "fail", map[string]any{"value": "here"})
	if !failed.IsError || textOf(failed) != "failed on purpose: here" {
		t.Errorf("a tool's own failure came as %+v", failed)
	}
	timeout, timeoutReason := int64(1504), "deadline_exceeded"
	if k.version != modern {
		timeout = -32000
	}
	for _, e := range []struct {
		name, tool string
		code       int64
		reason     string
		executed   string
	}{
		{"unknown tool", "no_such_tool", -32602, "unknown_tool", "no"},
		{"panic", "panic", -32603, "internal", "unknown"},
		{"defect", "defect", -32603, "internal", "unknown"},
		{"timeout", "stuck", timeout, timeoutReason, "unknown"},
	} {
		t.Run(e.name, func(t *testing.T) {
			began := time.Now()
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: e.tool})
			wire := wireError(err)
			if wire == nil {
				t.Fatalf("no JSON-RPC error: %v", err)
			}
			var data struct{ Reason, Executed string }
			_ = json.Unmarshal(wire.Data, &data)
			if wire.Code != e.code || data.Reason != e.reason || data.Executed != e.executed {
				t.Errorf("got %d %s, executed %s; want %d %s, executed %s: %s", wire.Code, data.Reason, data.Executed, e.code, e.reason, e.executed, wire.Message)
			}
			if strings.Contains(wire.Message+string(wire.Data), "secret") {
				t.Errorf("the cause reached the client: %s %s", wire.Message, wire.Data)
			}
			if took := time.Since(began); took > 5*time.Second+slack {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("invalid arguments", func(t *testing.T) {
		// From 2025-11-25 on the model is told.
		r := c.call(t, "analyzeText", map[string]any{"text": 7})
		if !r.IsError || !strings.Contains(textOf(r), "text") {
			t.Errorf("came as %+v, %q", r, textOf(r))
		}
	})
}

func sdkLarge(t *testing.T, c *client) {
	const size = 3 << 20
	if got := len(textOf(c.call(t, "big", map[string]any{"bytes": size}))); got != size {
		t.Errorf("%d bytes came as %d", size, got)
	}
}
