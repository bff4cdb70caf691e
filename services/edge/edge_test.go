package edge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestProbes(t *testing.T) {
	t.Parallel()
	e := edgetest.Start(t)
	h := e.Handler(door.Guard{})
	if status, body := get(t, h, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, body := get(t, h, "/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ready\nbus: connected\nclock: in step with the bus\naudit: ") {
		t.Errorf("%d %s", status, body)
	}
	e.Conn.Close()
	if status, _ := get(t, h, "/healthz"); status != http.StatusOK {
		t.Errorf("an edge without its bus is not alive: %d", status)
	}
	if status, body := get(t, h, "/readyz"); status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "not ready\nbus: not ready: the bus is not reachable\n") {
		t.Errorf("an edge without its bus is ready: %d %s", status, body)
	}
}

// serving is an edge that listens.
type serving struct {
	addr string
	stop context.CancelFunc
	done chan error
}

func serve(t *testing.T, e *edge.Edge) *serving {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &serving{addr: l.Addr().String(), stop: stop, done: make(chan error, 1)}
	go func() { s.done <- e.Serve(ctx, l) }()
	t.Cleanup(stop)
	return s
}

// A stopping edge accepts nothing more, ends its streams with their results, and finishes
// the calls in flight.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	s := serve(t, e)
	at := &edgetest.Edge{HTTP: &httptest.Server{URL: "http://" + s.addr}}
	stream, _ := at.Listen(t, "7", "{}")
	answer := make(chan string, 1)
	go func() { answer <- string(at.Call(t, "hold", "{}").Bytes) }()
	w.Svc.Running(t)
	idle, err := net.Dial("tcp", s.addr) // a connection without a request
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()

	s.stop()
	if m := stream.Await(); string(m.ID) != "7" || m.Field("resultType") != `"complete"` {
		t.Errorf("the stream ends with %+v", m)
	}
	stream.Ends()
	bustest.Eventually(t, "the listener is closed", func() bool {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-s.done:
		t.Fatalf("ended with a call in flight: %v", err)
	default:
	}
	w.Svc.Release <- struct{}{}
	if got := edgetest.Receive(t, "the answer", answer); !strings.Contains(got, "released") {
		t.Errorf("answer %s", got)
	}
	if err := edgetest.Receive(t, "the end of Serve", s.done); err != nil {
		t.Error(err)
	}
}

// A loopback listener answers only to loopback names.
func TestServeGuardsLoopback(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := serve(t, e)
	for host, want := range map[string]int{s.addr: 200, "localhost": 200, "evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/tools", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host, r.Close = host, true
		if resp := edgetest.Do(t, r); resp.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

func TestServeFails(t *testing.T) {
	t.Parallel()
	e := one(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := e.Serve(t.Context(), l); err == nil {
		t.Error("a closed listener is served")
	}
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := edge.New(ctx, conn, edge.Config{}); err == nil || e != nil {
		t.Errorf("got %v, %v", e, err)
	}
	conn.Close()
	if e, err := edge.New(t.Context(), conn, edge.Config{}); err == nil || e != nil {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	e := one(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.Await(ctx, "svc", "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, out := io.Pipe()
	done := make(chan error, 1)
	cmd := edge.Command{Flags: join.Flags{NATS: url}, ListenFlags: edge.ListenFlags{Listen: "127.0.0.1:0", AllowHost: []string{"mcp.example.com"}, AllowOrigin: []string{"https://app.example.com"}}}
	go func() { done <- cmd.Run(ctx, out) }()
	line := make(chan string, 1)
	go func() {
		l, _ := bufio.NewReader(in).ReadString('\n')
		line <- l
	}()
	var endpoint, nats string
	if l := edgetest.Receive(t, "the edge is ready", line); !strings.HasPrefix(l, "busbar edge is ready: mcp=http://127.0.0.1:") {
		t.Errorf("says %q", l)
	} else if _, err := fmt.Sscanf(l, "busbar edge is ready: mcp=%s nats=%s", &endpoint, &nats); err != nil || nats == "" {
		t.Errorf("says %q: %v", l, err)
	}
	if cfg := cmd.Config("1.2.3"); cfg.Version != "1.2.3" || cfg.Guard.Hosts[0] != "mcp.example.com" || cfg.Guard.Origins[0] != "https://app.example.com" {
		t.Errorf("config %+v", cfg)
	}
	stop()
	if err := edgetest.Receive(t, "the end of Run", done); err != nil {
		t.Error(err)
	}
	for says, cmd := range map[string]edge.Command{
		"nobody would be authenticated": {ListenFlags: edge.ListenFlags{Listen: ":0"}, Flags: join.Flags{NATS: url}}, "--nats": {ListenFlags: edge.ListenFlags{Listen: "127.0.0.1:0"}, Flags: join.Flags{NATS: "nats://127.0.0.1:1"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := cmd.Run(ctx, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
		cancel()
	}
}

// A request with two sets of credentials counts as having no credentials: a proxy in
// front of the edge may have checked the other set. gRPC's case is with its door.
func TestL4TwoAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	e := one(t)
	h := e.Handler(door.Guard{Loopback: true})
	for _, path := range []string{
		"/mcp", "/sse", "/messages", "/tools", "/tools/echo", "/tools:batch", "/resources", "/prompts", "/prompts/greet", "/sampling", "/approvals", "/v1", "/graphql", "/ws", "/audit/list",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			w := ask(t, h, method, path, "{}", "Authorization", "Bearer a", "Authorization", "Bearer b")
			if w.Code != http.StatusBadRequest && w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound || w.Code == http.StatusNotFound && method == http.MethodGet {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
}

// A service may end while a starting edge checks whether it answers, and another instance
// may take over. A caller that gives up waiting is told why it ended, whatever error the
// bus returned.
func TestAwaitTakeover(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	asked, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Await(asked, "svc"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	conn := bustest.Connect(t, w.Bus)
	first, err := service.New("brief").Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Await(t.Context(), "brief"); err != nil {
		t.Fatal(err)
	}
	conn.Close() // it stays in the registry for a while
	_ = first.Stop(t.Context())
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := e.Await(short, "brief"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("did not wait: %v", err)
	}
	next, err := service.New("brief").Start(t.Context(), bustest.Connect(t, w.Bus))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Await(t.Context(), "brief"); err != nil {
		t.Error(err)
	}
	if err := next.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
