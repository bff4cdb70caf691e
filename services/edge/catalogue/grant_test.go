package catalogue_test

import (
	"strings"
	"sync/atomic"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// granting follows the bus as an edge with a policy file, which can be changed.
func granting(t *testing.T, url, file string) (live *catalogue.Live, change func(file string)) {
	t.Helper()
	var now atomic.Pointer[access.Policy]
	set := func(file string) {
		p, err := access.Parse([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		now.Store(p)
	}
	set(file)
	live, err := catalogue.Open(t.Context(), bustest.Connect(t, url), catalogue.Config{
		Logger: bustest.Logger(t), Grants: func() catalogue.Grants { return now.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	return live, func(file string) { set(file); live.GrantsChanged() }
}

// A name that the policy file grants to a service belongs to that service at every edge. It does
// not matter which service came first, sorts first or has a more specific name for a URI.
func TestH8TheGrantedServiceHasTheName(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	rogue := full("a")
	announce(t, url, rogue)
	const file = `services: {b: {offers: [tools/x, prompts/x, "resources/x:///*", "resources/y:*", sampling/createMessage]}}`
	early, change := granting(t, url, file)
	bustest.Eventually(t, "the rogue is seen", func() bool { return len(early.Services()) == 1 })
	if now := early.Now(); all(t, now) != "" || len(now.Conflicts()) != 6 || now.Refused() != 6 {
		t.Fatalf("names that are not granted are served: %q, %v", all(t, now), now.Conflicts())
	}
	if p := strings.Join(early.Now().Problems(), "\n"); !strings.Contains(p, `tool "x" of service a is left out: services.a.offers of the policy file does not grant it, but to b`) {
		t.Errorf("%s", p)
	}
	// Nothing is claimed either: a newcomer reserves no name that it may not have.
	if err := bustest.Connect(t, url).Bucket(bus.NamesBucket).All(t.Context(), func(key string, _ []byte) { t.Errorf("%s is claimed", key) }); err != nil {
		t.Fatal(err)
	}
	b := announce(t, url, full("b"))
	bustest.Eventually(t, "b has its names", func() bool { return has(early, "b") })
	late, _ := granting(t, url, file)
	if !has(late, "b") || late.Now().Digest() != early.Now().Digest() {
		t.Error("edges differ")
	}
	// Also while its service is away, and whatever the bucket says.
	b.leave()
	bustest.Eventually(t, "b is gone", func() bool { return len(early.Services()) == 1 })
	name := catalogue.Name{Kind: catalogue.ToolName, Name: "x"}
	if err := catalogue.Assign(t.Context(), bustest.Connect(t, url), name, "a"); err != nil {
		t.Fatal(err)
	}
	announce(t, url, full("b"))
	bustest.Eventually(t, "b has its names again", func() bool { return has(early, "b") && has(late, "b") })
	// If two services are granted the same name, the bucket decides, as without a file.
	change(`services: {"*": {offers: ["*"]}}`)
	bustest.Eventually(t, "a has the name that it was assigned", func() bool { target, _ := early.Now().Tool("x"); return target.Service == "a" })
	change(file)
	bustest.Eventually(t, "b has its names by the file", func() bool { return has(early, "b") })
}

// A more specific grant for some URIs makes its service their reader.
func TestH8TheGrantedServiceReadsTheURI(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, _ := granting(t, url, `services: {store: {offers: ["resources/*"]}, team: {offers: ["resources/note://team/*"]}}`)
	announce(t, url, &busv1.Catalogue{Service: "store", ResourcePrefixes: []string{"note://", ""}})
	reads := func(uri, service string) bool {
		target, ok := live.Now().Resource(uri)
		return ok == (service != "") && target.Service == service
	}
	bustest.Eventually(t, "store reads its URIs", func() bool { return reads("note://a", "store") && reads("else:a", "store") })
	if !reads("note://team/a", "") {
		t.Error("who is there reads what is granted to who is not")
	}
	announce(t, url, &busv1.Catalogue{Service: "team", ResourcePrefixes: []string{"note://team/", "note://"}, Resources: []*busv1.Resource{entry("note://team/1"), entry("note://2")}})
	bustest.Eventually(t, "team reads its URIs", func() bool { return reads("note://team/a", "team") && reads("note://team/1", "team") })
	if !reads("note://a", "store") || !reads("note://2", "store") || live.Now().Refused() != 2 {
		t.Errorf("refused %v", live.Now().Conflicts())
	}
}

// Powers that a service was not granted do not count, and the problem is reported.
func TestH8PowersAreGranted(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, change := granting(t, url, "roles: {}")
	c := tools("svc", "x", "y")
	for _, one := range c.Tools {
		one.CallsTools, one.CacheShared, one.TimeoutMs, one.CacheMs, one.ReadOnly = true, true, 3_600_000, 1, true
	}
	announce(t, url, c)
	becomes(t, live, "x y")
	target, _ := live.Now().Tool("x")
	if x := target.Tool; x.CallsTools || x.CacheShared || x.Timeout != bus.DefaultTimeout {
		t.Errorf("%+v", x)
	}
	said := strings.Join(live.Now().Ungranted(), "\n")
	for _, grant := range []string{"services.svc.calls", "services.svc.cache_for_all", "services.svc.timeout"} {
		if strings.Count(said, grant) != 1 {
			t.Errorf("%s is not said once: %s", grant, said)
		}
	}
	change(`services: {svc: {offers: ["tools/*"], calls: ["tools/*"], cache_for_all: true, timeout: 2h}}`)
	bustest.Eventually(t, "what is granted counts", func() bool {
		target, _ := live.Now().Tool("x")
		return target.Tool.CallsTools && target.Tool.CacheShared && target.Tool.Timeout.Hours() == 1 && live.Now().Refused() == 0
	})
}
