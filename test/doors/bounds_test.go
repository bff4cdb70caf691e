package doors

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// ways lead a text through each door that takes one of its kind, and give the
// answer as text.
type ways map[string]func(ctx context.Context, t *testing.T, w *world, text string) string

// posted posts a body in which TEXT stands for the text.
func posted(path, body string, headers ...string) func(context.Context, *testing.T, *world, string) string {
	return func(ctx context.Context, t *testing.T, w *world, text string) string {
		t.Helper()
		_, answer := w.post(ctx, t, path, ada, strings.ReplaceAll(body, "TEXT", text), headers...)
		return string(answer)
	}
}

// overSocket sends messages in which TEXT stands for the text, and returns the
// last answer.
func overSocket(path, protocol string, messages ...string) func(context.Context, *testing.T, *world, string) string {
	return func(ctx context.Context, t *testing.T, w *world, text string) (answer string) {
		t.Helper()
		w.socket(ctx, t, ada, path, protocol, func(s *socket) outcome {
			for _, m := range messages {
				s.send(strings.ReplaceAll(m, "TEXT", text))
				b, ok := s.next()
				if !ok {
					t.Error("the socket was closed")
				}
				answer = string(b)
			}
			return outcome{}
		})
		return answer
	}
}

const (
	metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	socketInit = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
)

func modern(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `,` + metaModern + `}}`
}

func legacyMessage(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
}

func asAda(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+ada)
}

// uris are the ways of a URI.
var uris = ways{
	"resources/read": posted("/mcp", legacyMessage("resources/read", `"uri":"TEXT"`)),
	"resources/read of 2026-07-28": func(ctx context.Context, t *testing.T, w *world, text string) string {
		return posted("/mcp", modern("resources/read", `"uri":"TEXT"`), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", text)(ctx, t, w, text)
	},
	"resources/subscribe":      overSocket("/ws", "mcp", socketInit, legacyMessage("resources/subscribe", `"uri":"TEXT"`)),
	"resources/unsubscribe":    overSocket("/ws", "mcp", socketInit, legacyMessage("resources/unsubscribe", `"uri":"TEXT"`)),
	"subscriptions/listen":     overSocket("/ws", "mcp", modern("subscriptions/listen", `"notifications":{"resourceSubscriptions":["TEXT"]}`)),
	"skills/get":               overSocket("/ws", "mcp", modern("skills/get", `"uri":"TEXT"`)),
	"resources/directory/read": overSocket("/ws", "mcp", modern("resources/directory/read", `"uri":"TEXT"`)),
	"completion/complete":      posted("/mcp", legacyMessage("completion/complete", `"ref":{"type":"ref/resource","uri":"TEXT"},"argument":{"name":"x","value":""}`)),
	"REST, in the query": func(ctx context.Context, t *testing.T, w *world, text string) string {
		return w.read(ctx, t, "/resources?uri="+url.QueryEscape(text))
	},
	"REST, in the path": func(ctx context.Context, t *testing.T, w *world, text string) string {
		return w.read(ctx, t, "/resources/"+url.PathEscape(text))
	},
	"GraphQL":              posted("/graphql", `{"query":"query($u:String!){getResource(uri:$u){uri}}","variables":{"u":"TEXT"}}`),
	"GraphQL subscription": overSocket("/graphql", "graphql-transport-ws", `{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":{"query":"subscription($u:String!){resourceUpdated(uri:$u){uri}}","variables":{"u":"TEXT"}}}`),
	"WebSocket":            overSocket("/ws", "busbar", `{"type":"resource_request","id":1,"data":{"uri":"TEXT"}}`),
	"gRPC ReadResource": func(ctx context.Context, t *testing.T, w *world, text string) string {
		_, err := w.grpc.ReadResource(asAda(ctx), &gatewayv1.ReadResourceRequest{Uri: text})
		return status(t, err).reason
	},
	"gRPC Watch": func(ctx context.Context, t *testing.T, w *world, text string) string {
		s, err := w.grpc.Watch(asAda(ctx), &gatewayv1.WatchRequest{Uris: []string{text}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Recv(); err == nil {
			t.Fatal("it is watched")
		}
		return status(t, err).reason
	},
}

// read gets a path as ada.
func (w *world) read(ctx context.Context, t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+ada)
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keys are the ways of an idempotency key.
var keys = ways{
	"tools/call":           posted("/mcp", legacyMessage("tools/call", `"name":"plain","arguments":{"key":"bounds"},"_meta":{"io.github.busbar-mcp/idempotencyKey":"TEXT"}`)),
	"tools/call, a socket": overSocket("/ws", "mcp", legacyMessage("tools/call", `"name":"plain","arguments":{"key":"bounds"},"_meta":{"io.github.busbar-mcp/idempotencyKey":"TEXT"}`)),
	"REST": func(ctx context.Context, t *testing.T, w *world, text string) string {
		return posted("/tools/plain", `{"key":"bounds"}`, "Idempotency-Key", text)(ctx, t, w, text)
	},
	"REST batch":   posted("/tools:batch", `{"calls":[{"name":"plain","parameters":{"key":"bounds"},"idempotency_key":"TEXT"}]}`),
	"REST lines":   posted("/tools:batch", `{"name":"plain","parameters":{"key":"bounds"},"idempotency_key":"TEXT"}`, "Content-Type", "application/x-ndjson"),
	"GraphQL":      posted("/graphql", `{"query":"mutation($k:String!){executeTool(input:{name:\"plain\",parameters:{key:\"bounds\"},idempotency_key:$k}){is_error}}","variables":{"k":"TEXT"}}`),
	"executeTools": posted("/graphql", `{"query":"mutation($k:String!){executeTools(inputs:[{name:\"plain\",parameters:{key:\"bounds\"},idempotency_key:$k}]){reason error}}","variables":{"k":"TEXT"}}`),
	"WebSocket":    overSocket("/ws", "busbar", `{"type":"tool_request","id":1,"data":{"name":"plain","parameters":{"key":"bounds"},"idempotency_key":"TEXT"}}`),
	"a batch":      overSocket("/ws", "busbar", `{"type":"batch_request","id":1,"data":{"calls":[{"name":"plain","parameters":{"key":"bounds"},"idempotency_key":"TEXT"}]}}`),
	"gRPC": func(ctx context.Context, t *testing.T, w *world, text string) string {
		if text == "" {
			return "1 to 255 bytes" // there is no empty string in proto3
		}
		s, err := w.grpc.CallTool(asAda(ctx), &gatewayv1.CallToolRequest{Name: "plain", Arguments: []byte(`{"key":"bounds"}`), IdempotencyKey: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Recv(); err == nil {
			t.Fatal("it is called")
		}
		return status(t, err).reason + err.Error()
	},
}

// TestBounds requires that every door refuses messages over the bounds that hold while reading.
func TestBounds(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	everyWay := func(t *testing.T, all ways, text string, want ...string) {
		t.Helper()
		for name, through := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), answerTime)
				defer cancel()
				answer := through(ctx, t, w, text)
				for _, part := range want {
					if !strings.Contains(answer, part) {
						t.Errorf("%.300s", answer)
					}
				}
			})
		}
	}
	t.Run("H2 a URI of more than 2 KiB", func(t *testing.T) { everyWay(t, uris, "note:///"+strings.Repeat("a", 2041), "too_large") })
	t.Run("L2 a key of 256 bytes", func(t *testing.T) { everyWay(t, keys, strings.Repeat("k", 256), "1 to 255 bytes") })
	t.Run("L2 an empty key", func(t *testing.T) { everyWay(t, keys, "", "1 to 255 bytes") })
	t.Run("a key that is not text", func(t *testing.T) {
		everyWay(t, ways{"REST": keys["REST"]}, "\xff\xfe", "UTF-8 text of 1 to 255 bytes", `"executed":"no"`)
	})
	t.Run("a key where none is kept", func(t *testing.T) {
		everyWay(t, ways{"the envelope": posted("/v1", `{"version":"1.0","action":{"name":"plain","parameters":{"key":"bounds"}}}`, "Idempotency-Key", "k")}, "", "the envelope has no idempotency key")
	})
	t.Run("L2 none of these ran", func(t *testing.T) {
		if n := w.ledger.Runs("bounds"); n != 0 {
			t.Errorf("%d calls ran", n)
		}
	})
	t.Run("L4 a request with two tokens", func(t *testing.T) {
		for _, d := range webDoors {
			t.Run(d.method+" "+d.path, func(t *testing.T) {
				t.Parallel()
				resp := w.ask(t, d, func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + ada, "Bearer " + nobody} })
				if resp.StatusCode != http.StatusBadRequest {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		}
	})
	t.Run("a body of another kind is told what to be", func(t *testing.T) {
		for _, d := range webDoors {
			if d.body == "" {
				continue
			}
			t.Run(d.path, func(t *testing.T) {
				t.Parallel()
				resp, body := w.post(t.Context(), t, d.path, ada, d.body, "Content-Type", "text/plain")
				if resp.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(string(body), "application/json") || !strings.Contains(resp.Header.Get("Content-Type"), "json") {
					t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
				}
			})
		}
	})
}
