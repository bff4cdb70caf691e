package catalogue_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// full offers one name of each kind.
func full(service string) *busv1.Catalogue {
	c := tools(service, "x")
	c.Tools[0].Json = []byte(`{"name":"x","title":"` + service + `","inputSchema":{"type":"object"}}`)
	c.Prompts = []*busv1.Prompt{{Name: "x", Json: []byte(`{"name":"x"}`)}}
	c.Resources, c.ResourceTemplates = []*busv1.Resource{entry("x:///")}, []*busv1.ResourceTemplate{template("x:///{id}")}
	c.ResourcePrefixes = []string{"y:"}
	c.Samples = true
	return c
}

// has reports whether a service has all that full offers, at one edge.
func has(live *catalogue.Live, service string) bool {
	now := live.Now()
	for _, find := range []func() (catalogue.Target, bool){
		func() (catalogue.Target, bool) { return now.Tool("x") }, func() (catalogue.Target, bool) { return now.Prompt("x") },
		func() (catalogue.Target, bool) { return now.Resource("x:///") }, func() (catalogue.Target, bool) { return now.Resource("x:///1") },
		func() (catalogue.Target, bool) { return now.Template("x:///{id}") }, func() (catalogue.Target, bool) { return now.Resource("y:///1") },
		now.Sampler,
	} {
		if target, ok := find(); !ok || target.Service != service {
			return false
		}
	}
	return true
}

// The owner of a name keeps it at every edge, whatever a newcomer is called, and while it is away
// for a short time, until an operator gives the name to another service.
func TestH8FirstComeKeepsTheName(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	early := watch(t, url)
	b := announce(t, url, full("b"))
	bustest.Eventually(t, "b has its names", func() bool { return has(early, "b") })
	kept(t, url, 6)
	announce(t, url, full("a"))
	bustest.Eventually(t, "the conflicts are known", func() bool { return len(early.Now().Conflicts()) == 6 })
	for when, live := range map[string]*catalogue.Live{"before": early, "after": watch(t, url)} {
		now := live.Now()
		if !has(live, "b") || len(now.Conflicts()) != 6 {
			t.Errorf("edge there %s: a newcomer has taken names over; conflicts %v", when, now.Conflicts())
		}
		problems := strings.Join(now.Problems(), "\n")
		if strings.Count(problems, "of service a is left out: the name belongs to service b") != 6 || !strings.Contains(problems, `"busbar services assign tools/x a"`) {
			t.Errorf("edge there %s: problems\n%s", when, problems)
		}
		for _, k := range []catalogue.Kind{catalogue.Tools, catalogue.Prompts, catalogue.Resources, catalogue.Templates} {
			if p, _ := pageOf(now, k, nil); bytes.Count(p, []byte(`"name"`)) != 1 {
				t.Errorf("list of %s", p)
			}
		}
	}
	b.leave()
	bustest.Eventually(t, "b is gone", func() bool { return len(early.Services()) == 1 })
	for when, live := range map[string]*catalogue.Live{"before": early, "after": watch(t, url)} {
		if target, ok := live.Now().Tool("x"); ok {
			t.Errorf("edge there %s: the name of a service that is away goes to %s", when, target.Service)
		}
	}
	announce(t, url, full("b"))
	bustest.Eventually(t, "b has its names again", func() bool { return has(early, "b") })
	late := watch(t, url)
	conn := bustest.Connect(t, url)
	for _, n := range []string{"tools/x", "prompts/x", "resources/x:///", "templates/x:///{id}", "prefixes/y:", "model"} {
		name, err := catalogue.ParseName(n)
		if err != nil || name.String() != n {
			t.Fatalf("%s is read as %s, %v", n, name, err)
		}
		if err := catalogue.Assign(t.Context(), conn, name, "a"); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "a has what it was given, at every edge", func() bool { return has(early, "a") && has(late, "a") })
	if c := early.Now().Conflicts(); len(c) != 6 || c[0].Service != "b" || c[0].Owner != "a" {
		t.Errorf("conflicts %v", c)
	}
	if err := catalogue.Assign(t.Context(), conn, catalogue.Name{Kind: catalogue.ToolName, Name: "x"}, "gateway"); err == nil {
		t.Error("a name is given to the bus itself")
	}
}

// Edges that see two newcomers in different orders still agree.
func TestH8EdgesAgree(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	edges := []*catalogue.Live{watch(t, url), watch(t, url), watch(t, url), watch(t, url)}
	done := make(chan struct{}, 2)
	for _, name := range []string{"a", "b"} {
		conn := bustest.Connect(t, url)
		go func() { announceOn(t, conn, full(name)); done <- struct{}{} }()
	}
	<-done
	<-done
	settled := func(l *catalogue.Live) bool {
		return len(l.Services()) == 2 && (has(l, "a") || has(l, "b") || len(l.Now().Conflicts()) == 6)
	}
	bustest.Eventually(t, "every edge knows both", func() bool {
		for _, l := range edges {
			if !settled(l) || len(l.Now().Conflicts()) != 6 {
				return false
			}
		}
		return true
	})
	for _, l := range edges[1:] {
		if l.Now().Digest() != edges[0].Now().Digest() {
			t.Errorf("edges differ: %v and %v", l.Now().Conflicts(), edges[0].Now().Conflicts())
		}
	}
}

// A reader of the catalogue takes no names.
func TestH8LookWritesNothing(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	look, err := catalogue.Look(t.Context(), bustest.Connect(t, url), bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(look.Close)
	a := announce(t, url, full("a"))
	bustest.Eventually(t, "it is seen", func() bool { return has(look, "a") })
	a.leave()
	live := watch(t, url)
	announce(t, url, full("b"))
	bustest.Eventually(t, "the name was free", func() bool { return has(live, "b") })
}

// A newcomer with more specific names for the URIs that another service reads does not get these
// URIs, even while that service is away, until an operator assigns them. The reader of everything
// yields, unless an operator gave it a prefix.
func TestA3FirstComeKeepsItsURIs(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	early := watch(t, url)
	reads := func(l *catalogue.Live, uri string) string {
		target, _ := l.Now().Resource(uri)
		return target.Service
	}
	first := &busv1.Catalogue{Service: "first", ResourcePrefixes: []string{"doc://"}, ResourceTemplates: []*busv1.ResourceTemplate{template("team://{name}")}}
	b := announce(t, url, first)
	announce(t, url, &busv1.Catalogue{Service: "store", ResourcePrefixes: []string{""}})
	bustest.Eventually(t, "both have their names", func() bool { return reads(early, "doc://a") == "first" && reads(early, "else://a") == "store" })
	kept(t, url, 3)
	announce(t, url, &busv1.Catalogue{
		Service: "newcomer", ResourcePrefixes: []string{"doc://a/", "else://kept/"},
		ResourceTemplates: []*busv1.ResourceTemplate{template("doc://{+all}"), template("{+all}"), template("else://{+all}")},
		Resources:         []*busv1.Resource{entry("doc://b"), entry("team://b"), entry("own://b")},
	})
	late := watch(t, url)
	want := map[string]string{
		"doc://a": "first", "doc://a/b": "first", "doc://b": "first", "team://b": "first", "team://c": "first",
		"own://b": "newcomer", "else://a": "newcomer",
	}
	agree := func(want map[string]string) func() bool {
		return func() bool {
			for uri, service := range want {
				if reads(early, uri) != service || reads(late, uri) != service {
					return false
				}
			}
			return true
		}
	}
	bustest.Eventually(t, "everybody reads what it came first with", agree(want))
	for when, l := range map[string]*catalogue.Live{"before": early, "after": late} {
		problems := strings.Join(l.Now().Problems(), "\n")
		for _, n := range []string{"prefixes/doc://a/", "templates/doc://{+all}", "resources/doc://b", "resources/team://b"} {
			if !strings.Contains(problems, "busbar services assign "+n+" newcomer") {
				t.Errorf("edge there %s: nothing is said of %s:\n%s", when, n, problems)
			}
		}
		if len(l.Now().Conflicts()) != 4 {
			t.Errorf("edge there %s: conflicts %v", when, l.Now().Conflicts())
		}
		if p, _ := pageOf(l.Now(), catalogue.Resources, nil); bytes.Count(p, []byte(`"name"`)) != 1 || !bytes.Contains(p, []byte("own://b")) {
			t.Errorf("edge there %s: list %s", when, p)
		}
		if p, _ := pageOf(l.Now(), catalogue.Templates, nil); bytes.Contains(p, []byte("doc://")) {
			t.Errorf("edge there %s: templates %s", when, p)
		}
	}
	b.leave()
	bustest.Eventually(t, "nobody reads what belongs to a service that is away", agree(map[string]string{
		"doc://a": "", "doc://a/b": "", "doc://b": "", "team://b": "", "else://a": "newcomer",
	}))
	announce(t, url, first)
	bustest.Eventually(t, "it finds its URIs again", agree(want))
	conn := bustest.Connect(t, url)
	for n, service := range map[string]string{"prefixes/doc://a/": "newcomer", "resources/team://b": "newcomer", "prefixes/else://kept/": "store"} {
		name, err := catalogue.ParseName(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := catalogue.Assign(t.Context(), conn, name, service); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "an operator's word counts for more", agree(map[string]string{
		"doc://a": "first", "doc://a/b": "newcomer", "doc://b": "first", "team://b": "newcomer", "team://c": "first",
		"else://kept/x": "store", "else://a": "newcomer",
	}))
}

// The bucket decides which service came first: an edge whose clock is an hour slow does not put a
// newcomer before an established service.
func TestA3ClocksOfEdges(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	bustest.Connect(t, url) // makes the buckets
	at := func(clock time.Duration) *catalogue.Live {
		conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Logger: bustest.Logger(t), Now: func() time.Time { return time.Now().Add(clock) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		l, err := catalogue.Watch(t.Context(), conn, bustest.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	early := at(0)
	announce(t, url, &busv1.Catalogue{Service: "old", ResourcePrefixes: []string{"doc://"}})
	kept(t, url, 1)
	early.Close()
	slow := at(-time.Hour)
	defer slow.Close()
	announce(t, url, &busv1.Catalogue{Service: "newcomer", ResourcePrefixes: []string{"doc://a/"}})
	kept(t, url, 2)
	late := at(0)
	defer late.Close()
	for name, l := range map[string]*catalogue.Live{"slow": slow, "late": late} {
		bustest.Eventually(t, "both services are known", func() bool { return len(l.Services()) == 2 && len(l.Now().Conflicts()) > 0 })
		if target, _ := l.Now().Resource("doc://a/b"); target.Service != "old" {
			t.Errorf("at the %s edge %q reads it", name, target.Service)
		}
	}
}

// A long URI is kept for a service that is away, like a short one. A service with more templates
// or prefixes than allowed makes nobody wait.
func TestA3LongNamesAndManyNames(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	long := "memo://" + strings.Repeat("x", 1500) + "%22\\"
	good := announce(t, url, &busv1.Catalogue{Service: "good", Resources: []*busv1.Resource{entry(long), entry("memo://short")}})
	kept(t, url, 2)
	many := &busv1.Catalogue{Service: "many", ResourcePrefixes: []string{"memo://"}}
	for i := range 3000 {
		many.ResourceTemplates = append(many.ResourceTemplates, template(fmt.Sprintf("r://x/{a}/{b}/%d", i)))
		many.ResourcePrefixes = append(many.ResourcePrefixes, fmt.Sprintf("p://%d/", i))
	}
	announce(t, url, many)
	bustest.Eventually(t, "the newcomer reads what nobody had", func() bool {
		target, _ := live.Now().Resource("memo://new")
		return target.Service == "many"
	})
	now := live.Now()
	if _, ok := now.Resource("r://x/1/2/255"); !ok {
		t.Error("the first templates are left out")
	}
	if _, ok := now.Resource("r://x/1/2/256"); ok {
		t.Error("a service has more than 256 templates")
	}
	if _, ok := now.Resource("p://255/a"); ok {
		t.Error("a service has more than 256 prefixes")
	}
	if p := strings.Join(now.Problems(), "\n"); !strings.Contains(p, "at most 256 templates") || !strings.Contains(p, "at most 256 prefixes") {
		t.Errorf("problems %.400s", p)
	}
	good.leave()
	bustest.Eventually(t, "the owner is away", func() bool { return len(live.Services()) == 1 })
	for _, uri := range []string{"memo://short", long} {
		if target, ok := live.Now().Resource(uri); ok {
			t.Errorf("a URI of %d bytes goes to %s while its service is away", len(uri), target.Service)
		}
	}
}
