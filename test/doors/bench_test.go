package doors

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// BenchmarkCall is a small call through a door that is a codec over the table of operations. The
// client, the edge and the service allocate in one process, and are counted together.
func BenchmarkCall(b *testing.B) {
	w := newWorldOf(b, 1<<20)
	const arguments = `{"key":"bench"}`
	b.Run("REST", func(b *testing.B) {
		for b.Loop() {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+w.host+"/tools/look", strings.NewReader(arguments))
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+ada)
			r.Header.Set("Content-Type", "application/json")
			resp, err := w.client.Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				b.Fatal(resp, err)
			}
			_ = resp.Body.Close()
		}
	})
	b.Run("gRPC", func(b *testing.B) {
		ctx := metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer "+ada)
		for b.Loop() {
			ctx, stop := context.WithCancel(ctx)
			stream, err := w.grpc.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "look", Arguments: []byte(arguments)})
			for err == nil {
				var m *gatewayv1.CallToolResponse
				if m, err = stream.Recv(); err == nil && m.GetResult() != nil {
					break
				}
			}
			if stop(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("WebSocket", func(b *testing.B) {
		c, _, err := websocket.Dial(b.Context(), "ws://"+w.host+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + ada}}, Subprotocols: []string{"busbar"}}) //nolint:bodyclose // the dial closes it
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.CloseNow() }()
		for b.Loop() {
			if err := c.Write(b.Context(), websocket.MessageText, []byte(`{"type":"tool_request","id":1,"data":{"name":"look","parameters":`+arguments+`}}`)); err != nil {
				b.Fatal(err)
			}
			if _, m, err := c.Read(b.Context()); err != nil || !strings.Contains(string(m), "tool_response") {
				b.Fatalf("%s %v", m, err)
			}
		}
	})
}
