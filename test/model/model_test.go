// Package model tests sampling from the gateway, where the doors of scripts
// begin, over the bus to a provider.
package model

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/model"
)

const params = `{"messages":[{"role":"user","content":{"type":"text","text":"Что такое MCP?"}}],"maxTokens":100,"temperature":0.7}`

func sample(t *testing.T, g *gateway.Gateway, params string) (string, *fault.Error) {
	t.Helper()
	a, err := g.Do(t.Context(), &gateway.Call{Door: "test", Method: "sampling/createMessage", Arguments: []byte(params)}, nil)
	if err != nil {
		return "", fault.From(err)
	}
	return string(a.Result.Json), nil
}

// post is a request to an edge of this machine.
func post(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func newGateway(t *testing.T, url string) (*gateway.Gateway, *catalogue.Live) {
	t.Helper()
	conn := bustest.Connect(t, url)
	caller, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	live, err := catalogue.Watch(t.Context(), conn, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	return gateway.New(gateway.Config{Caller: caller, Catalogue: live}), live
}

func TestSampling(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Протокол."}],"stop_reason":"end_turn"}`))
	}))
	t.Cleanup(provider.Close)
	url := bustest.Server(t)
	g, live := newGateway(t, url)

	_, err := sample(t, g, params)
	if err == nil || err.Reason != fault.Unavailable || err.Executed != fault.No || !strings.Contains(err.Message, "BUSBAR_MODEL_PROVIDER") {
		t.Errorf("without a model: %v", err)
	}

	s, merr := model.New(t.Context(), model.Env{Env: service.Env{Log: bustest.Logger(t)}, Provider: "anthropic", URL: provider.URL, Name: "claude-x", APIKey: "secret"})
	if merr != nil {
		t.Fatal(merr)
	}
	running, merr := s.Start(t.Context(), bustest.Connect(t, url))
	if merr != nil {
		t.Fatal(merr)
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = running.Stop(ctx)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if err := live.Await(ctx, "model"); err != nil {
		t.Fatal(err)
	}
	got, err := sample(t, g, params)
	if want := `{"role":"assistant","content":{"type":"text","text":"Протокол."},"model":"claude-x","stopReason":"endTurn"}`; err != nil || got != want {
		t.Errorf("%s %v; want %s", got, err, want)
	}
	if _, err := sample(t, g, `{"messages":[]}`); err == nil || err.Reason != fault.InvalidParams {
		t.Errorf("%v", err)
	}

	// MCP clients bring models of their own.
	e, merr := edge.New(t.Context(), bustest.Join(t, url), edge.Config{Version: "1"})
	if merr != nil {
		t.Fatal(merr)
	}
	defer e.Close()
	if err := e.Await(ctx, "model"); err != nil {
		t.Fatal(err)
	}
	h := e.Handler(door.Guard{Loopback: true})
	r := post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{`+strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}")+
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	for name, v := range map[string]string{
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "sampling/createMessage",
	} {
		r.Header.Set(name, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "-32601") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Over plain HTTP callers do not.
	w = httptest.NewRecorder()
	h.ServeHTTP(w, post("/sampling", params))
	if w.Code != http.StatusOK || w.Body.String() != `{"content":{"type":"text","text":"Протокол."},"model":"claude-x","role":"assistant","stop_reason":"endTurn"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	stop()
	bustest.Eventually(t, "the model is gone", func() bool {
		_, err := sample(t, g, params)
		return err != nil && strings.Contains(err.Message, "No model is configured")
	})
}
