package catalogue_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// described is a tool with a description.
func described(name, text string) *busv1.Tool {
	t := tool(name)
	t.Json = []byte(`{"name":"` + name + `","description":"` + text + `","inputSchema":{"type":"object"}}`)
	return t
}

// says reports whether an edge offers x with a description; empty for no x.
func says(l *catalogue.Live, text string) bool {
	entry, ok := l.Now().Entry(catalogue.Tools, "x")
	_, found := l.Now().Tool("x")
	return ok == (text != "") && found == ok && strings.Contains(string(entry), text)
}

// Every edge offers a pinned tool in its accepted form: while an instance has that form, by that
// instance; then by nobody, until the new form is accepted.
func TestH8PinnedTools(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const file = `{pin: strict, services: {"*": {offers: ["*"]}}}`
	edges := []*catalogue.Live{}
	for range 2 {
		live, _ := granting(t, url, file)
		edges = append(edges, live)
	}
	all := func(what string, f func(*catalogue.Live) bool) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			for _, l := range edges {
				if !f(l) {
					return false
				}
			}
			return true
		})
	}
	conn := bustest.Connect(t, url)
	accept := func() {
		t.Helper()
		for _, d := range edges[0].Now().Newest() {
			if err := catalogue.Accept(t.Context(), conn, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := announce(t, url, &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "first"), described("y", "other")}})
	all("what nobody has accepted waits", func(l *catalogue.Live) bool {
		q := l.Now().Quarantined()
		return len(q) == 2 && q[0].New && q[0].Version == "" && says(l, "")
	})
	accept()
	all("what is accepted is offered", func(l *catalogue.Live) bool { return says(l, "first") && len(l.Now().Quarantined()) == 0 })

	// Another release changes x, in its description alone.
	young := announceAs(t, conn, "i2", "2.0.0", &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "obey me"), described("y", "other")}})
	all("the accepted form goes on", func(l *catalogue.Live) bool {
		q := l.Now().Quarantined()
		x, _ := l.Now().Tool("x")
		y, _ := l.Now().Tool("y")
		return len(q) == 1 && q[0].Tool == "x" && q[0].Version == "1.0.0" && !q[0].New && says(l, "first") &&
			len(x.Instances) == 1 && x.Instances[0] == "i1" && y.Instances == nil
	})
	old.leave()
	all("without an instance the tool is unknown", func(l *catalogue.Live) bool { return says(l, "") && len(l.Now().Quarantined()) == 1 })
	if p := strings.Join(edges[1].Now().Waiting(), "\n"); !strings.Contains(p, `tool "x" of service svc is quarantined: what its service says of it has changed; "busbar access accept" shows and accepts that`) {
		t.Errorf("%s", p)
	}
	// An edge that starts later agrees, and one without the file offers whatever is there.
	late, change := granting(t, url, file)
	edges = append(edges, late)
	all("all edges agree", func(l *catalogue.Live) bool { return says(l, "") && len(l.Now().Quarantined()) == 1 })
	accept()
	all("what is accepted then is offered", func(l *catalogue.Live) bool { return says(l, "obey me") && len(l.Now().Quarantined()) == 0 })
	change(`services: {"*": {offers: ["*"]}}`)
	young.update(&busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "third")}})
	bustest.Eventually(t, "without pins there is no quarantine", func() bool { return says(late, "third") && says(edges[0], "") })
	change(file)
	bustest.Eventually(t, "with pins again there is", func() bool { return says(late, "") })
}

// A tool that the newest release no longer has is still served in its accepted form, but only by
// the instances with exactly that form: not by an instance whose description nobody has read.
func TestPinnedToolOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, _ := granting(t, url, `{pin: strict, services: {"*": {offers: ["*"]}}}`)
	conn := bustest.Connect(t, url)
	announce(t, url, &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "read")}})
	bustest.Eventually(t, "it waits", func() bool { return len(live.Now().Quarantined()) == 1 })
	if err := catalogue.Accept(t.Context(), conn, live.Now().Newest()["x"]); err != nil {
		t.Fatal(err)
	}
	becomes(t, live, "x")
	announceAs(t, conn, "i2", "2.0.0", &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "unread")}})
	announceAs(t, conn, "i3", "3.0.0", &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("z", "new")}})
	bustest.Eventually(t, "the first release answers for x, alone", func() bool {
		_, other := live.Now().Newest()["z"]
		x, ok := live.Now().Tool("x")
		return other && ok && slices.Equal(x.Instances, []string{"i1"}) && len(x.Earlier) == 0
	})
}

// When the bucket is lost, edges still have what they know.
func TestH8PinsOutliveTheirBucket(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, _ := granting(t, url, `{pin: strict, services: {"*": {offers: ["*"]}}}`)
	announce(t, url, tools("svc", "x"))
	bustest.Eventually(t, "it waits", func() bool { return len(live.Now().Quarantined()) == 1 })
	conn := bustest.Connect(t, url)
	if err := catalogue.Accept(t.Context(), conn, live.Now().Newest()["x"]); err != nil {
		t.Fatal(err)
	}
	becomes(t, live, "x")
	if err := conn.Bucket(bus.AcceptedBucket).Each(t.Context(), "", func(key string, _ []byte) {
		if err := conn.Bucket(bus.AcceptedBucket).Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	// Assigning makes edges read again, and y shows that they have.
	if err := catalogue.Assign(t.Context(), conn, catalogue.Name{Kind: catalogue.ToolName, Name: "y"}, "svc"); err != nil {
		t.Fatal(err)
	}
	announce(t, url, tools("other", "z"))
	bustest.Eventually(t, "the edge has made its catalogue again", func() bool { return len(live.Now().Quarantined()) == 1 })
	if all(t, live.Now()) != "x" {
		t.Error("what was accepted is not offered any more")
	}
}

// Only one of all edges reports that a definition changed.
func TestH8ChangesAreToldOnce(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var mu sync.Mutex
	var told []catalogue.Redefined
	edges := []*catalogue.Live{watch(t, url), watch(t, url), watch(t, url)}
	for _, l := range edges {
		l.OnRedefined(func(r catalogue.Redefined) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, r)
		})
	}
	svc := announce(t, url, &busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{described("x", "first"), described("y", "same")}})
	kept := func(n int, digest string) func() bool {
		return func() bool {
			found, all := false, 0
			err := bustest.Connect(t, url).Bucket(bus.DefinitionsBucket).Each(t.Context(), "seen.", func(_ string, value []byte) {
				all++
				found = found || strings.Contains(string(value), digest)
			})
			return err == nil && all == n && found
		}
	}
	bustest.Eventually(t, "what is said is kept", kept(2, `"first"`))
	changed := described("x", "second")
	changed.CallsTools = true
	svc.update(&busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{changed, described("y", "same"), described("z", "new")}})
	bustest.Eventually(t, "the change is kept", kept(3, `"second"`))
	bustest.Eventually(t, "the change is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0
	})
	// All edges have had their round when each has kept a tool that comes after it.
	svc.update(&busv1.Catalogue{Service: "svc", Tools: []*busv1.Tool{changed, described("y", "same"), described("z", "new"), described("last", "new")}})
	bustest.Eventually(t, "a later round is over", kept(4, `"last"`))
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || told[0].After.Tool != "x" || definition.ClassOf(told[0].Differences) != definition.Power || len(told[0].Differences) != 2 {
		t.Errorf("told %+v", told)
	}
}
