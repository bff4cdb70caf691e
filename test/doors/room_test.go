package doors

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// TestNoRoomAtEveryDoor has calls of a tool with large results under way, as many as have
// room, and makes one more through each door: it is refused, and does not run.
func TestNoRoomAtEveryDoor(t *testing.T) {
	t.Parallel()
	const room, size, fit = 2 << 20, 400 << 10, 2 // a caller has half of the room
	w := newWorldOf(t, room)
	s := service.New("reports", service.WithLogger(slog.New(slog.DiscardHandler)))
	var runs atomic.Int64
	release := make(chan struct{})
	service.AddTool(s, service.Tool{Name: "export"}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		if runs.Add(1) > 1 {
			select {
			case <-release:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return strings.Repeat("x", size), nil
	})
	servicetest.Join(t, bustest.Join(t, w.nats), s)
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	if err := w.edges[0].Await(ctx, "reports"); err != nil {
		t.Fatal(err)
	}
	export := posted("/tools/export", `{}`)
	if first := export(ctx, t, w, ""); len(first) < size {
		t.Fatalf("%.300s", first)
	}
	ended := make(chan string, fit)
	for range fit {
		go func() { ended <- export(ctx, t, w, "") }()
	}
	bustest.Eventually(t, "as many as have room run", func() bool { return runs.Load() == 1+fit })
	for door, way := range map[string]func(context.Context, *testing.T, *world, string) string{
		"REST":          export,
		"REST, a batch": posted("/tools:batch", `{"calls":[{"name":"export","parameters":{}}]}`),
		"envelope": func(ctx context.Context, t *testing.T, w *world, _ string) string {
			resp, _ := w.post(ctx, t, "/v1", ada, action(call{tool: "export"}))
			return resp.Header.Get("Busbar-Reason") + `"executed":"` + resp.Header.Get("Busbar-Executed")
		},
		"GraphQL":         posted("/graphql", `{"query":"mutation{executeTool(input:{name:\"export\"}){is_error}}"}`),
		"MCP, 2026-07-28": posted("/mcp", modern("tools/call", `"name":"export","arguments":{}`), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "export"),
		"MCP, 2025-03-26": posted("/mcp", legacyMessage("tools/call", `"name":"export","arguments":{}`), "MCP-Protocol-Version", "2025-03-26"),
		"MCP, WebSocket":  overSocket("/ws", "mcp", socketInit, legacyMessage("tools/call", `"name":"export","arguments":{}`)),
		"WebSocket":       overSocket("/ws", "busbar", `{"type":"tool_request","id":1,"data":{"name":"export"}}`),
		"gRPC": func(ctx context.Context, t *testing.T, w *world, _ string) string {
			s, err := w.grpc.CallTool(asAda(ctx), &gatewayv1.CallToolRequest{Name: "export"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Recv()
			o := status(t, err)
			return o.reason + `"executed":"` + o.executed
		},
	} {
		t.Run(door, func(t *testing.T) {
			answer := way(ctx, t, w, "")
			if !strings.Contains(answer, "overloaded") || !strings.Contains(strings.ReplaceAll(answer, " ", ""), `"executed":"no`) {
				t.Errorf("%.600s", answer)
			}
		})
	}
	close(release)
	for range fit {
		if answer := <-ended; len(answer) < size {
			t.Errorf("%.300s", answer)
		}
	}
	if n := runs.Load(); n != 1+fit {
		t.Errorf("%d calls ran", n)
	}
	for _, name := range []string{"busbar_results_expected_bytes", "busbar_results_held_bytes"} {
		bustest.Eventually(t, name+" is 0", func() bool { return w.metric(t, name) == "0" })
	}
}
