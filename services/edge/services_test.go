package edge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// The commands list the services and the owners of names, and move a name.
func TestB5ServicesCommand(t *testing.T) {
	t.Parallel()
	b := bustest.Server(t)
	live, err := catalogue.Watch(t.Context(), bustest.Connect(t, b), bustest.Logger(t)) // as an edge does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	tool := &busv1.Tool{Name: "x", Json: []byte(`{"name":"x","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`)}
	for _, name := range []string{"zeta", "alpha"} {
		a, err := registry.Announce(bustest.Connect(t, b), name, "i-"+name, "1.2.3", &busv1.Catalogue{Service: name, Tools: []*busv1.Tool{tool}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Withdraw(context.WithoutCancel(t.Context())) })
		if err := live.Await(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	list := func(asJSON bool) string {
		t.Helper()
		var out strings.Builder
		c := edge.ListServices{JSON: asJSON}
		c.NATS = b
		if err := c.Run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := list(false); !strings.Contains(got, "zeta") || !strings.Contains(got, "1.2.3") || !strings.Contains(got, "\tno answer\t-\t1\t0\t0\t") || !strings.Contains(got, "1 tool") ||
		!strings.Contains(got, `tool "x" of service alpha is left out: the name belongs to service zeta`) {
		t.Errorf("listed is\n%s", got)
	}
	// A new version that offers the same as the one before: both are listed.
	newer, err := registry.Announce(bustest.Connect(t, b), "alpha", "i-newer", "1.3.0", &busv1.Catalogue{Service: "alpha", Tools: []*busv1.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { newer.Withdraw(context.WithoutCancel(t.Context())) })
	bustest.Eventually(t, "both versions are listed", func() bool { return strings.Contains(list(false), "1.3.0, 1.2.3") })
	if got := list(true); !strings.Contains(got, `"version": "1.3.0"`) || !strings.Contains(got, `"otherVersions": [`) {
		t.Errorf("as JSON:\n%s", got)
	}
	var out strings.Builder
	assign := edge.AssignName{Name: "tools/x", Service: "alpha"}
	assign.NATS = b
	if err := assign.Run(t.Context(), &out); err != nil || out.String() != "tools/x belongs to service alpha now\n" {
		t.Fatalf("%q %v", out.String(), err)
	}
	events, err := auditlog.NewReader(bustest.Connect(t, b), 0).Next(t.Context())
	if err != nil || len(events) != 2 {
		t.Fatalf("the trail has %v, %v", events, err)
	}
	for i, want := range []string{audit.Begun, "ok"} {
		if e := events[i].Event; e.Outcome != want || e.Method != "busbar/names.assign" || e.Name != "tools/x" || e.Service != "alpha" || e.Principal != "operator" || !e.Effect {
			t.Errorf("the trail has %v", e)
		}
	}
	bustest.Eventually(t, "the edge obeys", func() bool { target, _ := live.Now().Tool("x"); return target.Service == "alpha" })
	var said struct {
		Services  []struct{ Service string }
		Conflicts []struct{ Name, Service, Owner string }
	}
	if err := json.Unmarshal([]byte(list(true)), &said, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if len(said.Conflicts) != 1 || said.Conflicts[0].Owner != "alpha" || said.Conflicts[0].Service != "zeta" || len(said.Services) < 2 {
		t.Errorf("as JSON: %+v", said)
	}
	assign.Name = "tool/x"
	if err := assign.Run(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "write tools/NAME") {
		t.Errorf("a name of no kind: %v", err)
	}
}

// A running service is listed even if the registry is full and keeps no new instance.
func TestServicesOfAFullRegistry(t *testing.T) {
	t.Parallel()
	b := bustest.Server(t)
	conn := bustest.Connect(t, b)
	found, err := conn.JetStream().Stream(t.Context(), "KV_registry")
	if err != nil {
		t.Fatal(err)
	}
	cfg := found.CachedInfo().Config
	cfg.MaxBytes = 64 << 10
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for i, size := 0, 4000; size > 0; i++ {
		if _, err := conn.JetStream().Publish(t.Context(), fmt.Sprintf("$KV.registry.evil.%d", i), make([]byte, size)); err != nil {
			size /= 10
		}
	}
	running, err := service.New("text", service.WithVersion("1.2.3")).Start(t.Context(), bustest.Join(t, b))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop(context.WithoutCancel(t.Context())) })
	var out strings.Builder
	c := edge.ListServices{}
	c.NATS = b
	if err := c.Run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "text") || !strings.Contains(out.String(), "1.2.3") {
		t.Errorf("%v; listed is\n%s", err, out.String())
	}
}
