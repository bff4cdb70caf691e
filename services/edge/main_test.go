package edge_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a bus with a service.
type world struct{ *edgetest.World }

func start(t *testing.T) world {
	t.Helper()
	return world{edgetest.StartBus(t)}
}

// one is an edge with a service behind it.
func one(t *testing.T) *edge.Edge {
	t.Helper()
	return edgetest.Start(t).Edge.Edge
}

// listening makes an edge serve at listeners until the test ends.
func listening(t *testing.T, e *edge.Edge, f edge.ListenFlags, authenticated bool) *edge.Listeners {
	t.Helper()
	l, err := f.Open(authenticated)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.ServeAll(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := edgetest.Receive(t, "the edge stops", done); err != nil {
			t.Errorf("serve: %v", err)
		}
		l.Close()
	})
	return l
}

// fetch gets a URL on a connection of its own.
func fetch(t *testing.T, url, authorization string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Close = true; authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp := edgetest.Do(t, r)
	return resp.StatusCode, string(resp.Bytes)
}

// ask makes a request of a client on this machine; header are names and values.
func ask(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8000", "127.0.0.1:5000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}
