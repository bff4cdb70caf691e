package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/test/testservice"
)

// TestSDK puts the official Go client, modern and legacy and over every transport, before a whole
// Busbar with a second edge.
func TestSDK(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	ledger := &testservice.Ledger{}
	serve(t, dev.nats, testservice.New(ledger))
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
			t.Run("progress", func(t *testing.T) { sdkProgress(t, c) })
			t.Run("log", func(t *testing.T) { sdkLog(t, c, k) })
			t.Run("errors", func(t *testing.T) { sdkErrors(t, c, k) })
			t.Run("large", func(t *testing.T) { sdkLarge(t, c) })
			t.Run("elicitation", func(t *testing.T) { sdkAsk(t, c) })
			t.Run("cancel", func(t *testing.T) { sdkCancel(t, c, k, ledger) })
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

// TestOldVersions makes the client speak each legacy version.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, transport := range []string{"http", "stdio", "sse"} {
			k := kind{transport, version}
			t.Run(k.String(), func(t *testing.T) {
				t.Parallel()
				c := connect(t, k, place{url: dev.mcp, stdio: []string{"--nats", dev.nats}})
				sdkList(t, c)
				if err := c.Ping(t.Context(), nil); err != nil {
					t.Errorf("ping: %v", err)
				}
				c.call(t, "analyzeText", map[string]any{"text": "One bus. Many circuits."})
			})
		}
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

func sdkProgress(t *testing.T, c *client) {
	params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 4, "ms": 200}}
	params.SetProgressToken("a token")
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	for step := 1.0; step <= 4; step++ {
		p := await(t, fmt.Sprintf("progress %v", step), c.progress)
		if p.Progress != step || p.Total != 4 || p.Message != fmt.Sprintf("step %v", step) || p.ProgressToken != "a token" {
			t.Errorf("progress %v came as %+v", step, p)
		}
	}
}

func sdkLog(t *testing.T, c *client, k kind) {
	params := &mcp.CallToolParams{Name: "log"}
	if k.version == modern {
		params.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "error"}
	} else if err := c.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "error"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	for _, level := range []mcp.LoggingLevel{"error", "critical", "alert", "emergency"} {
		l := await(t, "log at "+string(level), c.logs)
		if l.Level != level || l.Logger != "testservice" || l.Data != "at "+string(level) {
			t.Errorf("log at %s came as %+v", level, l)
		}
	}
	select {
	case l := <-c.logs:
		t.Errorf("one record more: %+v", l)
	default:
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

// sdkAsk is answered in modern and legacy versions: 2026-07-28 has the question in the result,
// before that the edge asks on the client's stream.
func sdkAsk(t *testing.T, c *client) {
	if got := textOf(c.call(t, "ask", nil)); !strings.Contains(got, "accept Ada") {
		t.Errorf("answered %q", got)
	}
}

func sdkCancel(t *testing.T, c *client, k kind, ledger *testservice.Ledger) {
	key := "cancel " + k.String()
	ctx, cancel := withCancel(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"key": key, "ms": 20_000}})
		done <- err
	}()
	eventually(t, "the call has started", func() bool { return ledger.Runs(key+" started") == 1 })
	began := time.Now()
	cancel()
	if err := await(t, "the end of the call", done); err == nil {
		t.Error("the cancelled call succeeded")
	}
	eventually(t, "the handler is cancelled", func() bool { return ledger.Runs(key+" cancelled") == 1 })
	if took := time.Since(began); took > 2*time.Second+slack {
		t.Errorf("the handler heard of it after %v", took)
	}
}
