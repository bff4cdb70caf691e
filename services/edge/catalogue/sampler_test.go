package catalogue_test

import (
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
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
	first := announce(t, url, &busv1.Catalogue{Service: "first", Samples: true})
	bustest.Eventually(t, "the first by name samples", func() bool { return sampler() == "first" })
	first.leave()
	bustest.Eventually(t, "the other takes over", func() bool { return sampler() == "second" })
}
