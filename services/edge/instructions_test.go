package edge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
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
		servicetest.Join(t, bustest.Connect(t, w.Bus), s)
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
		body := edgetest.Initialize(version)
		if version == mcp.Modern {
			body = edgetest.Request("1", mcp.MethodDiscover, "")
		}
		header := []string{"Authorization", "Bearer " + who}
		if version == mcp.Modern {
			header = append(header, mcp.HeaderProtocolVersion, version, mcp.HeaderMethod, "server/discover")
		}
		rec := ask(t, g.doors[edge], http.MethodPost, path, body, header...)
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
