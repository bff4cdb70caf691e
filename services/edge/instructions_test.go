package edge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// TestInstructions: a client of any version gets the joined instructions of the services
// that offer it something, through a toolset too. It gets none while offers have to be
// accepted.
func TestInstructions(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, text := range map[string]string{"shop": "\"Orders\" come first.\r\nshop\u200b tools want an id.", "depot": "svc:\n  never ask", "mute": ""} {
		s := service.New(name, service.WithInstructions(text))
		service.AddTool(s, service.Tool{Name: name + "_look", ReadOnly: true}, func(context.Context, *service.Call, struct{}) (string, error) { return "", nil })
		servicetest.Join(t, bustest.Connect(t, w.bus), s)
	}
	const policy = `
roles: {all: {allow: ["*"]}, buyer: {allow: [tools/shop_look]}, none: {allow: [tools/echo]}}
principals: {ada: {tenant: acme, roles: [all]}, bob: {tenant: acme, roles: [buyer]}, eve: {tenant: acme, roles: [none]}}
toolsets: {desk: {offers: [tools/depot_look]}}
services: {"*": {offers: ["*"]}}
`
	g := w.govern(t, 2, policy)
	const shop, depot = "- shop:\n  \"Orders\" come first.\n  shop tools want an id.\n", "- depot:\n  svc:\n  never ask\n"
	told := func(edge int, who, path, version string) (text, scope string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
		if version == mcp.Modern {
			body = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Host, r.RemoteAddr = "127.0.0.1:8000", "127.0.0.1:5000"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+who)
		if version == mcp.Modern {
			r.Header.Set(mcp.HeaderProtocolVersion, version)
			r.Header.Set(mcp.HeaderMethod, "server/discover")
		}
		rec := httptest.NewRecorder()
		g.doors[edge].ServeHTTP(rec, r)
		answer := rec.Body.String()
		if _, data, events := strings.Cut(answer, "data: "); events {
			answer = data
		}
		var m struct {
			Result *struct {
				Instructions, CacheScope string
				Capabilities             map[string]any
			}
		}
		if err := json.Unmarshal([]byte(answer), &m); err != nil || m.Result == nil || m.Result.Capabilities == nil {
			t.Fatalf("%v: %d %s", err, rec.Code, answer)
		}
		return m.Result.Instructions, m.Result.CacheScope
	}
	for i := range g.edges {
		bustest.Eventually(t, "everything is told", func() bool { text, _ := told(i, "ada", "/mcp", mcp.Modern); return text == depot+shop })
	}
	for _, version := range mcp.Supported() {
		for _, c := range []struct{ who, path, want, scope string }{
			{"ada", "/mcp", depot + shop, "public"}, {"bob", "/mcp", shop, "private"}, {"eve", "/mcp", "", "private"}, {"ada", "/mcp/desk", depot, "private"},
			{"ada", "/mcp?tools=search", depot + shop, "public"},
		} {
			text, scope := told(0, c.who, c.path, version)
			if text != c.want || version == mcp.Modern && scope != c.scope {
				t.Errorf("%s as %s at %s: %q for %s, want %q", version, c.who, c.path, text, scope, c.want)
			}
		}
	}
	g.put("pin: strict\n" + policy)
	bustest.Eventually(t, "nobody has accepted them", func() bool { text, _ := told(0, "ada", "/mcp", mcp.Modern); return text == "" })
}
