package tenants

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// soon is how long a stream may go on after its credentials have ended: a second, and
// what a busy machine adds.
const soon = bustest.Promptly

// A stream ends when the credentials that it was opened with end, and says nothing
// more.
func TestM3StreamsEndWithTheirCredentials(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	events := func(method, path, body string, headers ...string) func(*testing.T, string) func() string {
		return func(t *testing.T, token string) func() string {
			s := w.stream(t, 0, token, method, path, body, headers...)
			if s.status != http.StatusOK {
				t.Fatalf("not opened: %d", s.status)
			}
			if path != "/mcp" || method == "POST" {
				s.until("data:")
			}
			return func() string { return s.ends(soon) }
		}
	}
	socket := func(path, protocol, hello, welcome string) func(*testing.T, string) func() string {
		return func(t *testing.T, token string) func() string {
			s := w.socket(t, token, path, protocol)
			if hello != "" {
				s.send(hello)
				s.until(welcome)
			}
			return func() string {
				ended := make(chan error, 1)
				var heard strings.Builder
				go func() {
					for {
						_, m, err := s.conn.Read(t.Context())
						if err != nil {
							ended <- err
							return
						}
						heard.Write(m)
					}
				}()
				select {
				case err := <-ended:
					if code := websocket.CloseStatus(err); code != 4401 {
						t.Errorf("closed with %v", err)
					}
				case <-time.After(soon):
					t.Error("it is still open")
				}
				return heard.String()
			}
		}
	}
	for way, open := range map[string]func(t *testing.T, token string) (end func() string){
		"subscriptions/listen": events("POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["note://m3"]},`+meta+`}}`,
			mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "subscriptions/listen"),
		"GET /mcp": func(t *testing.T, token string) func() string {
			id := w.session(t, token)
			end := events("GET", "/mcp", "", in(id)...)(t, token)
			w.do(t, token, "POST", "/mcp", legacy("1", "resources/subscribe", `"uri":"note://m3"`), in(id)...)
			return end
		},
		"GET /sse": events("GET", "/sse", ""),
		"/ws, MCP": socket("/ws", "mcp", initialize, `"id":1`),
		"/ws":      socket("/ws", "", "", ""),
		"/graphql": socket("/graphql", "graphql-transport-ws", `{"type":"connection_init"}`, "connection_ack"),
		"gRPC Watch": func(t *testing.T, token string) func() string {
			s, err := w.edges[0].grpc.Watch(md(t, token), &gatewayv1.WatchRequest{Resources: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Header(); err != nil {
				t.Fatal(err)
			}
			return func() string {
				ended := make(chan error, 1)
				go func() {
					for {
						if _, err := s.Recv(); err != nil {
							ended <- err
							return
						}
					}
				}()
				select {
				case err := <-ended:
					if status.Code(err) != codes.Unauthenticated {
						t.Errorf("ended with %v", err)
					}
				case <-time.After(soon):
					t.Error(errors.New("it is still open"))
				}
				return ""
			}
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			token := "acme:" + strings.NewReplacer(" ", "", "/", "", ",", "").Replace(way)
			end := open(t, token)
			w.tokens.revoke(token)
			told := end()
			w.must(t, ada, "create_resource", `{"uri":"note://`+strings.ToLower(strings.TrimPrefix(token, "acme:"))+`","text":"x"}`)
			if strings.Contains(told, "resources/updated") {
				t.Errorf("it heard %s", told)
			}
		})
	}
}
