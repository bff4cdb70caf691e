package graphql_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is an edge with a service behind it.
type world struct {
	*edgetest.World
	url    string
	token  string
	client *http.Client
}

func start(t testing.TB) *world {
	return startAs(t, edge.Config{}, door.Guard{Loopback: true})
}

func startAs(t testing.TB, cfg edge.Config, guard door.Guard) *world {
	t.Helper()
	w := &world{World: edgetest.Start(t, func(c *edge.Config) {
		cfg.Version, cfg.Logger = c.Version, c.Logger
		*c = cfg
	})}
	srv := httptest.NewServer(w.Handler(guard))
	t.Cleanup(srv.Close)
	w.url, w.client = srv.URL+"/graphql", srv.Client()
	return w
}

// key is an authenticator that knows one token.
type key struct{}

func (key) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer != "key" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
	}
	return gateway.Principal{Name: "ada"}, nil
}

type header = map[string]string

func (w *world) request(t testing.TB, method, body string, h header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	for name, v := range h {
		r.Header.Set(name, v)
		if name == "Host" {
			r.Host = v
		}
	}
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// response is a GraphQL response.
type response struct {
	Data   map[string]any `json:"data"`
	Errors []graphError   `json:"errors"`
	status int
	body   string
}

type graphError struct {
	Message    string         `json:"message"`
	Path       []any          `json:"path"`
	Extensions map[string]any `json:"extensions"`
}

func body(t testing.TB, query string, variables map[string]any) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) do(t testing.TB, query string, variables map[string]any) response {
	t.Helper()
	return w.post(t, body(t, query, variables))
}

func (w *world) post(t testing.TB, body string) response {
	t.Helper()
	resp, text := w.request(t, http.MethodPost, body, nil)
	r := response{status: resp.StatusCode, body: text}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return r
}

// data requires a response without errors and returns its data.
func (r response) data(t testing.TB) string {
	t.Helper()
	if r.status != http.StatusOK || len(r.Errors) > 0 {
		t.Fatalf("%d %.500s", r.status, r.body)
	}
	b, err := json.Marshal(r.Data, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// refused requires a single error.
func (r response) refused(t testing.TB, status int, code, reason, executed string) graphError {
	t.Helper()
	if len(r.Errors) == 0 {
		t.Fatalf("no error: %.500s", r.body)
	}
	e := r.Errors[0]
	if r.status != status || e.Extensions["code"] != code || e.Extensions["reason"] != reason || e.Extensions["executed"] != executed || e.Message == "" {
		t.Errorf("%d %.500s, want %d %s %s", r.status, r.body, status, code, reason)
	}
	if strings.Contains(r.body, "secret") {
		t.Errorf("it tells too much: %s", r.body)
	}
	return e
}

// socket speaks graphql-transport-ws.
type socket struct {
	*edgetest.Socket
	t testing.TB
}

func (w *world) dial(t testing.TB) *socket {
	t.Helper()
	h := edgetest.Header{}
	if w.token != "" {
		h["Authorization"] = "Bearer " + w.token
	}
	return &socket{edgetest.Dial(t, w.url, h, "graphql-transport-ws"), t}
}

// open also does the handshake.
func (w *world) open(t testing.TB) *socket {
	t.Helper()
	s := w.dial(t)
	s.Send(`{"type":"connection_init"}`)
	s.Expect(`{"type":"connection_ack"}`)
	return s
}

func (s *socket) subscribe(id, query string) {
	s.t.Helper()
	s.Send(`{"id":"` + id + `","type":"subscribe","payload":` + body(s.t, query, nil) + `}`)
}
