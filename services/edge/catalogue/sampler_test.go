package catalogue_test

import (
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func TestSampler(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := watch(t, url)
	sampler := func() string {
		target, ok := l.Now().Sampler()
		if ok != (target.Service != "") || target.Tool != nil {
			t.Errorf("%+v %t", target, ok)
		}
		return target.Service
	}
	if got := sampler(); got != "" {
		t.Errorf("with nothing there, %s", got)
	}
	announce(t, url, tools("aaa", "x"))
	announce(t, url, &busv1.Catalogue{Service: "second", Samples: true})
	bustest.Eventually(t, "the only one samples", func() bool { return sampler() == "second" })
	kept(t, url, 2) // the tool x, and the model
	announce(t, url, &busv1.Catalogue{Service: "first", Samples: true})
	bustest.Eventually(t, "a conflict is known", func() bool { return len(l.Now().Conflicts()) == 1 })
	if got := sampler(); got != "second" {
		t.Errorf("who came later has taken the model over: %s", got)
	}
	if err := catalogue.Assign(t.Context(), bustest.Connect(t, url), catalogue.Name{Kind: catalogue.ModelName}, "first"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the other samples, as the operator said", func() bool { return sampler() == "first" })
}
