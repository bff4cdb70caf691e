package model_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const key = "sk-canary-2f9c"

// upstream is a provider's server. It gives a set answer, and remembers the request.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	header http.Header
	path   string
	body   []byte
}

func serve(t *testing.T, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		u.mu.Lock()
		u.header, u.path, u.body = r.Header.Clone(), r.Method+" "+r.URL.Path, body
		u.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// asked returns the request that the provider received, with its members in order.
func (u *upstream) asked(t *testing.T) (path string, header http.Header, body string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	var v any
	if err := json.Unmarshal(u.body, &v); err != nil {
		t.Fatalf("%v: %s", err, u.body)
	}
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return u.path, u.header, string(raw)
}

// caller calls the service as an edge does.
type caller struct {
	t      *testing.T
	caller *bus.Caller
	log    *bustest.Log
}

// start puts the service on a new bus.
func start(t *testing.T, cfg model.Env) *caller {
	t.Helper()
	transport := &http.Transport{}
	if cfg.Transport == nil {
		cfg.Transport = transport
	}
	cfg.APIKey = key
	c := &caller{t: t, log: &bustest.Log{}}
	cfg.Log = slog.New(slog.NewTextHandler(c.log, nil))
	s, err := model.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	url := bustest.Server(t)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "model", Logger: cfg.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = running.Stop(ctx)
		transport.CloseIdleConnections()
	})
	if c.caller, err = bus.NewCaller(bustest.Connect(t, url)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.caller.Close() })
	return c
}

// sample asks the model, with a time limit.
func (c *caller) sample(params string, atMost time.Duration) (string, *fault.Error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), atMost)
	defer cancel()
	frame, err := c.caller.Call(ctx, "model", &busv1.Request{Method: "sampling/createMessage", Arguments: []byte(params)}, nil)
	if err != nil {
		return "", fault.From(err)
	}
	return string(frame.GetResult().GetJson()), nil
}

// params is the request of the founding documents, in the form of the protocol.
const params = `{"messages":[{"role":"user","content":{"type":"text","text":"Что такое MCP?"}}],"maxTokens":100,"temperature":0.7}`

// recorded answers without a network.
type recorded func(body string)

func (f recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	f(string(body))
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(openAIAnswer)), Request: r}, err
}

// startOver is start with a provider that is not contacted over a network.
func startOver(t *testing.T, cfg model.Env, asked func(body string)) *caller {
	t.Helper()
	cfg.Transport = recorded(asked)
	return start(t, cfg)
}
