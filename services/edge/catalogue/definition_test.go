package catalogue_test

import (
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// A definition covers the service and every word of its entry, and is the same at every edge. So
// later changes can be told from what was approved.
func TestH8DefinitionChangesWithOwnerAndFlags(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, other := watch(t, url), watch(t, url)
	definition := func() string { target, _ := live.Now().Tool("x"); return target.Definition }
	a := announce(t, url, tools("a", "x"))
	bustest.Eventually(t, "the tool is there", func() bool { return definition() != "" })
	first := definition()
	bustest.Eventually(t, "another edge has the same", func() bool { target, _ := other.Now().Tool("x"); return target.Definition == first })
	seen := map[string]string{first: "as it was"}
	for name, change := range map[string]func(*busv1.Tool){
		"read-only": func(t *busv1.Tool) { t.ReadOnly = true }, "approval": func(t *busv1.Tool) { t.RequiresUserApproval = true },
		"keys": func(t *busv1.Tool) { t.KeepsKeys = true }, "shared": func(t *busv1.Tool) { t.CacheShared = true },
		"timeout": func(t *busv1.Tool) { t.TimeoutMs = 1 }, "calls tools": func(t *busv1.Tool) { t.CallsTools = true },
		"text": func(t *busv1.Tool) { t.Json = []byte(`{"name":"x","title":"y","inputSchema":{"type":"object"}}`) },
	} {
		before := definition()
		c := tools("a", "x")
		change(c.Tools[0])
		a.update(c)
		bustest.Eventually(t, "the definition changes with: "+name, func() bool { return definition() != before })
		if same, ok := seen[definition()]; ok {
			t.Errorf("%s has the definition of %s", name, same)
		}
		seen[definition()] = name
	}
	a.update(tools("a", "x"))
	bustest.Eventually(t, "what is as it was has the definition it had", func() bool { return definition() == first })
	announce(t, url, tools("b", "x"))
	if err := catalogue.Assign(t.Context(), bustest.Connect(t, url), catalogue.Name{Kind: catalogue.ToolName, Name: "x"}, "b"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "another service has the tool", func() bool { target, _ := live.Now().Tool("x"); return target.Service == "b" })
	if definition() == first {
		t.Error("another service's tool has the same definition")
	}
}
