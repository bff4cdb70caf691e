package rest_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) {
	// A client that reads nothing until a busy machine has nothing more to send does not
	// count as gone.
	door.SetTimes(2*bustest.Patience, 15*time.Second)
	leaktest.Main(m)
}

// world is an edge with a service behind it.
type world struct {
	*edgetest.World
	url    string
	client *http.Client
}

func start(t testing.TB) *world {
	t.Helper()
	w := &world{World: edgetest.Start(t)}
	srv := httptest.NewUnstartedServer(w.Handler(door.Guard{Loopback: true}))
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			small(c)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	w.url, w.client = srv.URL, srv.Client()
	return w
}

type header = map[string]string

// reply is a whole answer.
type reply struct {
	*http.Response
	body string
}

func (w *world) request(t testing.TB, method, path, body string, h header) *http.Request {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, v := range h {
		r.Header.Set(name, v)
		if name == "Host" {
			r.Host = v
		}
	}
	return r
}

func (w *world) do(t testing.TB, method, path, body string, h header) reply {
	t.Helper()
	resp, err := w.client.Do(w.request(t, method, path, body, h))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp, string(b)}
}

// read reads the body into v.
func (r reply) read(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
}

// problem is a problem detail.
type problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Reason       string `json:"reason"`
	Executed     string `json:"executed"`
	Next         string `json:"next"`
	RetryAfterMS int    `json:"retry_after_ms"`
}

// refused requires a problem detail.
func (r reply) refused(t testing.TB, status int, reason, executed string) problem {
	t.Helper()
	var p problem
	if ct := r.Header.Get("Content-Type"); r.StatusCode != status || ct != "application/problem+json" {
		t.Fatalf("status %d, want %d; %s %s", r.StatusCode, status, ct, r.body)
	}
	r.read(t, &p)
	if p.Status != status || p.Reason != reason || p.Executed != executed || p.Detail == "" || p.Title != http.StatusText(status) {
		t.Errorf("problem %s", r.body)
	}
	return p
}

// events reads server-sent events as "name data".
func events(r io.Reader) <-chan string {
	out := make(chan string, 1024)
	go func() {
		defer close(out)
		name := ""
		for s := bufio.NewScanner(r); s.Scan(); {
			if n, ok := strings.CutPrefix(s.Text(), "event: "); ok {
				name = n
			} else if d, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				out <- name + " " + d
			}
		}
	}()
	return out
}
