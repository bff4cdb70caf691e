package websocket_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) {
	// A message of 900 KB has enough time on a busy machine too.
	door.SetTimes(6*time.Second, 20*time.Millisecond)
	leaktest.Main(m)
}

// world is an edge with a service behind it.
type world struct {
	svc  *edgetest.Service
	edge *edge.Edge
	url  string
	// keys are the valid tokens; nil asks for none.
	keys *keys
}

func start(t testing.TB, keys *keys) *world {
	t.Helper()
	cfg := edge.Config{Version: "1.2.3", Logger: bustest.Logger(t)}
	if keys != nil {
		cfg.Authenticator = keys
	}
	w := startWith(t, cfg)
	w.keys = keys
	return w
}

func startWith(t testing.TB, cfg edge.Config) *world {
	t.Helper()
	url := bustest.Server(t)
	w := &world{svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, url))
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	var err error
	if w.edge, err = edge.New(ctx, bustest.Connect(t, url), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.edge.Close)
	if err := w.edge.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.edge.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	w.url = srv.URL + "/ws"
	return w
}

// keys is an authenticator whose tokens may be revoked.
type keys struct{ revoked chan struct{} }

func (k *keys) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	select {
	case <-k.revoked:
	default:
		if c.Bearer == "key" {
			return gateway.Principal{Name: "ada"}, nil
		}
	}
	return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
}

// OnEnded implements gateway.Ender.
func (k *keys) OnEnded(f func(string)) func() {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-k.revoked:
			f("")
		case <-ended:
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

type socket struct {
	*client.Conn
	t testing.TB
}

func (w *world) dial(t testing.TB, protocols ...string) *socket {
	t.Helper()
	h := http.Header{}
	if w.keys != nil {
		h.Set("Authorization", "Bearer key")
	}
	c, resp, err := client.Dial(t.Context(), w.url, &client.DialOptions{Subprotocols: protocols, HTTPHeader: h, CompressionMode: client.CompressionContextTakeover})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("extensions: %v", resp.Header)
	}
	c.SetReadLimit(32 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &socket{c, t}
}

func (s *socket) send(text string) {
	s.t.Helper()
	if err := s.Write(s.t.Context(), client.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) next() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	_, b, err := s.Read(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// expect requires the next message.
func (s *socket) expect(want string) {
	s.t.Helper()
	if got := s.next(); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// closed requires that the server closes with a code, whatever it sends before.
func (s *socket) closed(code client.StatusCode) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	for {
		_, _, err := s.Read(ctx)
		if err == nil {
			continue
		}
		if got := client.CloseStatus(err); got != code {
			s.t.Errorf("closed with %v, want %v: %v", got, code, err)
		}
		return
	}
}

type message struct {
	Type  string         `json:"type"`
	ID    jsontext.Value `json:"id"`
	Data  jsontext.Value `json:"data"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason      string `json:"reason"`
			Executed    string `json:"executed"`
			Next        string `json:"next"`
			Approval    string `json:"approval"`
			Elicitation string `json:"elicitation"`
			Requests    map[string]struct {
				Message string `json:"message"`
			} `json:"requests"`
		} `json:"data"`
	} `json:"error"`
}

func (s *socket) message() message {
	s.t.Helper()
	text := s.next()
	var m message
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return m
}

// refused requires an error.
func (s *socket) refused(id string, code int, reason, executed string) message {
	s.t.Helper()
	m := s.message()
	if m.Type != "error" || string(m.ID) != id || m.Error == nil || m.Error.Code != code || m.Error.Data.Reason != reason || m.Error.Data.Executed != executed {
		s.t.Errorf("%s %s %s %+v, want %s for %s", m.Type, m.ID, m.Data, m.Error, reason, id)
	}
	return m
}

// release lets one call of hold return.
func (w *world) release(t testing.TB) {
	t.Helper()
	select {
	case w.svc.Release <- struct{}{}:
	case <-time.After(bustest.Patience):
		t.Fatalf("no call that runs was to be released in %v", bustest.Patience)
	}
}

func receive[V any](t testing.TB, what string, c <-chan V) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}

func long(n int) string { return strings.Repeat("x", n) }
