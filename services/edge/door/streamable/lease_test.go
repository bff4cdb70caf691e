package streamable_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// tokens are good until they are revoked.
type tokens struct {
	mu    sync.Mutex
	back  map[string]bool
	ended func(string)
}

func (k *tokens) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.Bearer == "" || k.back[c.Bearer] {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
	}
	return gateway.Principal{Name: "ada", Tenant: "acme", Credential: "key " + c.Bearer}, nil
}

func (k *tokens) OnEnded(f func(string)) func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = f
	return func() {}
}

func (k *tokens) takeBack(token string) {
	k.mu.Lock()
	k.back[token] = true
	ended := k.ended
	k.mu.Unlock()
	ended("key " + token)
}

// Streams end with the credentials that they were opened with; others go on.
func TestM3StreamsEndWithTheirCredentials(t *testing.T) {
	t.Parallel()
	k := &tokens{back: map[string]bool{}}
	e, err := edge.New(t.Context(), bustest.Connect(t, bustest.Server(t)), edge.Config{Version: "1", Authenticator: k, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	h := e.Handler(door.Guard{})
	ask := func(ctx context.Context, method, token, session, body string) *written {
		r, err := http.NewRequestWithContext(ctx, method, "http://edge/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set(mcp.HeaderSessionID, session)
		} else if strings.Contains(body, mcp.Modern) {
			r.Header.Set(mcp.HeaderProtocolVersion, mcp.Modern)
			r.Header.Set("Mcp-Method", mcp.MethodListen)
		}
		w := &written{header: http.Header{}, ended: make(chan struct{})}
		go func() {
			defer close(w.ended)
			h.ServeHTTP(w, r)
		}()
		return w
	}
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"` +
		mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientCapabilities + `":{}}}}`
	opened := ask(t.Context(), http.MethodPost, "a", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
	<-opened.ended
	session := opened.header.Get(mcp.HeaderSessionID)
	if session == "" {
		t.Fatalf("no session: %s", opened)
	}
	stays, end := context.WithCancel(t.Context())
	streams := map[string]*written{
		"listen": ask(t.Context(), http.MethodPost, "a", "", listen), "GET": ask(t.Context(), http.MethodGet, "a", session, ""),
	}
	others := map[string]*written{"listen": ask(stays, http.MethodPost, "b", "", listen)}
	for name, s := range streams {
		bustest.Eventually(t, name+" is open", func() bool { return s.status() == http.StatusOK })
	}
	bustest.Eventually(t, "another is open", func() bool { return others["listen"].status() == http.StatusOK })
	k.takeBack("a")
	for name, s := range streams {
		bustest.Eventually(t, name+" has ended", s.over)
	}
	if said := streams["listen"].String(); !strings.Contains(said, `"reason":"unauthenticated"`) {
		t.Errorf("listen ends with %s", said)
	}
	if others["listen"].over() {
		t.Error("another's stream has ended, too")
	}
	end()
	bustest.Eventually(t, "the other ends with its client", others["listen"].over)
}

// written is an answer while it is written.
type written struct {
	header http.Header
	ended  chan struct{}
	mu     sync.Mutex
	code   int
	body   strings.Builder
}

func (w *written) Header() http.Header { return w.header }
func (w *written) Flush()              {}

func (w *written) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = code
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.body.Write(b)
}

func (w *written) status() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.code
}

func (w *written) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}
