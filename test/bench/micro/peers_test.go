// Package micro measures Busbar beside what it could be measured against: the
// bare floor of HTTP and NATS, and the official SDK's server.
package micro

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

type in struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type out struct {
	Text string `json:"text"`
}

const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{"text":"One bus. Many circuits."},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// request is the whole HTTP request, the same bytes for every peer, but for an API key
// where one is shown.
func request(addr net.Addr, tool, key string) []byte {
	body := fmt.Sprintf(body, tool)
	if key != "" {
		key = "Authorization: Bearer " + key + "\r\n"
	}
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n%sContent-Length: %d\r\n\r\n%s", addr, tool, key, len(body), body)
}

// serve runs a handler on a real listener for the length of the benchmark.
func serve(b *testing.B, h http.Handler) net.Addr {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	// The timeouts that no server should be without, for all alike.
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { _ = srv.Close() })
	return l.Addr()
}

// Two tools that do the same. A call of the second may have an effect, as far
// as the edge knows, so it has two records, and waits for both.
const (
	echo   = "echo"
	effect = "save"
)

// startBusbar is the whole path: HTTP, edge, NATS, service, and back.
func startBusbar(b *testing.B, recorded edge.Audit) net.Addr {
	addr, _ := startGuarded(b, recorded, "")
	return addr
}

// startGuarded is startBusbar with a policy file. If there is one, it returns an API key for the
// calls.
func startGuarded(b *testing.B, recorded edge.Audit, policy string) (_ net.Addr, key string) {
	url := bustest.Server(b)
	quiet := slog.New(slog.DiscardHandler)
	s := service.New("echo", service.WithLogger(quiet), service.WithConcurrency(256))
	for _, tool := range []service.Tool{{Name: echo, ReadOnly: true}, {Name: effect}} {
		service.AddTool(s, tool, func(_ context.Context, _ *service.Call, i in) (out, error) { return out(i), nil })
	}
	service.AddTool(s, service.Tool{Name: report, ReadOnly: true}, func(_ context.Context, call *service.Call, i in) (out, error) {
		for n := range reports {
			call.Progress(float64(n+1), reports, "on its way")
		}
		return out(i), nil
	})
	conn := bustest.Connect(b, url)
	running, err := s.Start(b.Context(), conn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = running.Stop(context.Background()) })
	edgeConn, err := bus.Connect(b.Context(), bus.Config{URL: url, Name: "edge", Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(edgeConn.Close)
	cfg := edge.Config{Version: "0.0.0", Logger: quiet, Audit: recorded}
	if policy != "" {
		flags := edge.PolicyFlags{Access: policy}
		closed, err := flags.OpenPolicy(&cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(closed)
	}
	forgotten, err := new(edge.IdentityFlags).OpenIdentity(&cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(forgotten)
	e, err := edge.New(b.Context(), edgeConn, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	if err := e.Await(b.Context(), "echo"); err != nil {
		b.Fatal(err)
	}
	if policy != "" {
		if key, err = store.NewAPIKeys(edgeConn).Create(b.Context(), "bench", "anna", time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
	return serve(b, e.Handler(door.Guard{Loopback: true})), key
}

// policy has every kind of rule that a call is checked against: roles that allow and deny, and
// limits of each kind. conditional has a condition on the arguments as well.
const policy = `
tenants: {acme: {limits: {rate: 1000000/s, concurrent: 100000}}}
roles:
  analyst: {allow: [tools/echo, tools/save, "resources/example://*"], deny: ["tools/delete_*"], limits: {rate: 1000000/s, concurrent: 100000}}
principals: {anna: {tenant: acme, roles: [analyst]}}
tools: {echo: {rate: 1000000/s}}
`

const conditional = policy + `conditions: [{on: tools/echo, when: 'args.text.startsWith("One") && principal.tenant == "acme"'}]`

// guarded is Busbar with a policy.
func guarded(policy string) func(*testing.B) (net.Addr, string) {
	return func(b *testing.B) (net.Addr, string) {
		file := filepath.Join(b.TempDir(), "access.yaml")
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			b.Fatal(err)
		}
		return startGuarded(b, edge.Audit{}, file)
	}
}

// startFloor does only the necessary steps: read a body over net/http, carry it over NATS and back,
// write an answer of the same size.
func startFloor(b *testing.B, answer string) net.Addr {
	url := bustest.Server(b)
	connect := func() *nats.Conn {
		nc, err := nats.Connect(url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		return nc
	}
	responder, caller := connect(), connect()
	_, err := responder.Subscribe("floor", func(m *nats.Msg) { go func() { _ = m.Respond([]byte(answer)) }() })
	if err != nil {
		b.Fatal(err)
	}
	if err := responder.Flush(); err != nil {
		b.Fatal(err)
	}
	return serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, data); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := caller.RequestWithContext(r.Context(), "floor", data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(m.Data)))
		_, _ = w.Write(m.Data)
	}))
}

// startSDK is the official Go SDK's server with the same tool in its own
// process, without a bus.
func startSDK(b *testing.B) net.Addr {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "0.0.0"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, i in) (*sdk.CallToolResult, out, error) {
		return nil, out(i), nil
	})
	return serve(b, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
}

// client is one keep-alive connection that costs little beside the server.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	answer  []byte
}

// dialAs connects a client with an API key; empty for none.
func dialAs(b *testing.B, addr net.Addr, tool, key string) *client {
	b.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &client{conn: conn, in: bufio.NewReader(conn), request: request(addr, tool, key)}
}

// call makes one request and reads its answer.
func (c *client) call() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		s := string(line)
		switch {
		case first && !strings.Contains(s, " 200 "):
			return fmt.Errorf("answer: %s", strings.TrimSpace(s))
		case len(line) > 16 && strings.EqualFold(s[:16], "Content-Length: "):
			if length, err = strconv.Atoi(strings.TrimSpace(s[16:])); err != nil {
				return err
			}
		}
		if len(line) <= 2 {
			break
		}
	}
	if length < 0 {
		return fmt.Errorf("answer has no length")
	}
	if cap(c.answer) < length {
		c.answer = make([]byte, length)
	}
	c.answer = c.answer[:length]
	_, err := io.ReadFull(c.in, c.answer)
	return err
}
