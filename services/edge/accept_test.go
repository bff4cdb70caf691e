package edge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// With pin: strict, two edges offer the definitions that an operator has accepted. A
// change of these is in the trail once, with its class.
func TestH8AcceptTools(t *testing.T) {
	t.Parallel()
	w := start(t)
	says := func(description string, calls bool) *busv1.Catalogue {
		return &busv1.Catalogue{Service: "pinned", Tools: []*busv1.Tool{{
			Name: "x", Json: []byte(`{"name":"x","description":"` + description + `","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`), CallsTools: calls,
		}}}
	}
	svc, err := registry.Announce(bustest.Connect(t, w.Bus), "pinned", "i1", "1.0.0", says("Does it", false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Withdraw(context.WithoutCancel(t.Context())) })
	g := w.govern(t, 2, everybody+"pin: strict\n")
	offered := func(want string, n int) func() bool {
		return func() bool {
			for i := range g.doors {
				_, body := g.ask(i, "ada", http.MethodGet, "/tools", "")
				if strings.Count(body, `"name"`) < n || strings.Contains(body, "Does it") != (want == "Does it") || strings.Contains(body, "Obey") != (want == "Obey") {
					return false
				}
			}
			return true
		}
	}
	accept := func(yes bool, tools ...string) (string, error) {
		t.Helper()
		var out strings.Builder
		c := edge.AcceptTools{Tools: tools, All: len(tools) == 0, Yes: yes}
		c.NATS, c.Access = w.Bus, g.file
		err := c.Run(t.Context(), &out)
		return out.String(), err
	}
	bustest.Eventually(t, "nothing is offered", func() bool {
		_, body := g.ask(1, "ada", http.MethodGet, "/tools", "")
		_, ready := get(t, g.doors[1], "/readyz")
		return !strings.Contains(body, `"name"`) && strings.Contains(ready, "tools that wait to be accepted: ")
	})
	if said, err := accept(false); err == nil || !strings.Contains(err.Error(), "say --yes") || !strings.Contains(said, "tool x of service pinned: new\n") {
		t.Errorf("without a terminal: %s %v", said, err)
	}
	if said, _ := accept(false, "x"); !strings.Contains(said, "new\n{\n  \"cacheMs\": 0,\n") || !strings.Contains(said, "\n    \"description\": \"Does it\",\n") {
		t.Errorf("it is shown as\n%s", said)
	}
	// A definition that is too large to be shown is accepted only by its name.
	large, err := registry.Announce(bustest.Connect(t, w.Bus), "large", "i1", "1.0.0", &busv1.Catalogue{Service: "large", Tools: []*busv1.Tool{{
		Name: "y", Json: []byte(`{"name":"y","description":"` + strings.Repeat("z", definition.MaxText) + `","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := accept(true); err == nil || err.Error() != "1 tool not accepted: what cannot be shown has to be named" || !strings.Contains(said, "\naccepted: ") {
		t.Fatalf("%s %v", said, err)
	}
	if said, err := accept(true, "y"); err != nil || said != "tool y of service large: new\n  the definition is too large to be shown\naccepted: 1 tool\n" {
		t.Errorf("%s %v", said, err)
	}
	large.Withdraw(t.Context())
	if said, err := accept(true); err != nil {
		t.Fatalf("%s %v", said, err)
	}
	bustest.Eventually(t, "all is offered", offered("Does it", 5))
	if said, err := accept(true, "x"); err != nil || said != "nothing waits to be accepted\n" {
		t.Errorf("a second time: %s %v", said, err)
	}
	if _, err := accept(true, "none"); err == nil || !strings.Contains(err.Error(), `no service has a tool "none"`) {
		t.Errorf("a tool that is not there: %v", err)
	}
	seen := bustest.Connect(t, w.Bus).Bucket(bus.DefinitionsBucket)
	bustest.Eventually(t, "the edges have seen what it says", func() (found bool) {
		err := seen.Each(t.Context(), "seen.", func(_ string, value []byte) { found = found || strings.Contains(string(value), "Does it") })
		return found && err == nil
	})
	if err := svc.Update(says("Obey\u202e\U000E0101\u3164", true)); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the changed tool is not offered", offered("", 5))
	if code, body := g.ask(0, "ada", http.MethodPost, "/tools/x", "{}"); code != http.StatusNotFound {
		t.Errorf("it is called: %d %s", code, body)
	}
	asked := ""
	c := edge.AcceptTools{Tools: []string{"x"}, Ask: func(_ context.Context, question string) (bool, error) { asked = question; return false, nil }}
	c.NATS, c.Access = w.Bus, g.file
	var out strings.Builder
	if err := c.Run(t.Context(), &out); err == nil || err.Error() != "nothing is accepted" || asked != "accept 1 tool?" {
		t.Errorf("%q: %v", asked, err)
	}
	want := "tool x of service pinned: more power\n  /callsTools (more power)\n    - false\n    + true\n  /entry/description (words)\n    - \"Does it\"\n    + \"Obey<U+202E><U+E0101><U+3164>\"\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	var redefined, accepted []string
	events := auditlog.NewReader(bustest.Connect(t, w.Bus), 0)
	for len(redefined) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
		all, err := events.Next(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			switch e := one.Event; {
			case e.Method == "busbar/tool.redefined":
				redefined = append(redefined, e.Name+" "+e.Service+" "+string(e.Arguments))
			case e.Method == "busbar/tool.accept" && e.Outcome == "ok":
				accepted = append(accepted, e.Name)
			}
		}
	}
	if len(redefined) != 1 || !strings.HasPrefix(redefined[0], "x pinned {") || !strings.Contains(redefined[0], `"change":"more power"`) || strings.Contains(redefined[0], "Obey") || len(accepted) < 5 {
		t.Errorf("the trail says %q, %q", redefined, accepted)
	}
	if _, err := accept(true, "x"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the new form is offered", offered("Obey", 5))
}
