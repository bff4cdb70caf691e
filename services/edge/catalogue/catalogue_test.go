package catalogue_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// An entry that cannot be offered is left out alone, with a reason.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	schema := func(s string) *busv1.Tool {
		return &busv1.Tool{Name: "bad", Json: tool("bad").Json, InputSchema: []byte(s)}
	}
	shown := func(s string) *busv1.Tool {
		return &busv1.Tool{Name: "bad", Json: []byte(s), InputSchema: []byte(`{"type":"object"}`)}
	}
	for name, bad := range map[string]*busv1.Tool{
		"schema not JSON": schema(`{`), "schema missing": schema(``), "schema of a string": schema(`{"type":"string"}`), "schema a list": schema(`[]`),
		"network $ref":   schema(`{"type":"object","properties":{"a":{"$ref":"https://evil.example/s"}}}`),
		"bad pattern":    schema(`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`),
		"bad header":     schema(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`),
		"deep":           schema(`{"type":"object","properties":{"a":` + strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100) + `}}`),
		"entry not JSON": shown(`{"name":"bad"`), "entry a list": shown(`["bad"]`), "entry empty": shown(``), "entry two values": shown(`{"name":"bad"},{"name":"worse"}`),
		"entry that ends the list": shown(`{}],"tools":[{}`), "entry with a member twice": shown(`{"name":"bad","name":"worse"}`), "entry of another name": shown(`{"name":"good2","inputSchema":{}}`),
		// A client rejects the whole list if it has such an entry.
		"entry nested deep": shown(`{"name":"bad","inputSchema":{"type":"object"},"_meta":{"example.com/a":` + strings.Repeat("[", 59) + strings.Repeat("]", 59) + `}}`),
	} {
		c := tools("svc", "good1", "good2")
		c.Tools = append([]*busv1.Tool{bad}, c.Tools...)
		t.Run(name, func(t *testing.T) {
			// One bus for all, and one service at a time.
			live := watch(t, url)
			a := announce(t, url, c)
			becomes(t, live, "good1 good2")
			if p := live.Now().Problems(); len(p) != 1 || !strings.Contains(p[0], `tool "bad" of service `+c.Service) {
				t.Errorf("problems %q", p)
			}
			a.leave()
			becomes(t, live, "")
		})
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	announce(t, url, &busv1.Catalogue{Service: "files", ResourceTemplates: []*busv1.ResourceTemplate{template("file:///{+path}")}, Resources: []*busv1.Resource{entry("note:///mine")}})
	bustest.Eventually(t, "files is there", func() bool { return len(live.Services()) == 1 })
	announce(t, url, &busv1.Catalogue{Service: "notes", ResourceTemplates: []*busv1.ResourceTemplate{template("note:///{id}"), template("bad:///{")}})
	bustest.Eventually(t, "both are there", func() bool { return len(live.Services()) == 2 })
	for uri, service := range map[string]string{
		"note:///7": "notes", "note:///a%20b": "notes", "note:///a/b": "", "note:///mine": "files", "file:///a/b/c.md": "files", "other:///7": "", "": "", "note:///{id}": "",
	} {
		if target, ok := live.Now().Resource(uri); ok != (service != "") || target.Service != service {
			t.Errorf("%q goes to %q, want %q", uri, target.Service, service)
		}
	}
	if target, ok := live.Now().Template("note:///{id}"); !ok || target.Service != "notes" {
		t.Error("a template is not found by its text")
	}
	if _, ok := live.Now().Template("note:///7"); ok {
		t.Error("a URI is taken for a template")
	}
	if p := live.Now().Problems(); len(p) != 1 || !strings.Contains(p[0], `"bad:///{"`) {
		t.Errorf("problems %q", p)
	}
}

func TestToolFacts(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	c := tools("svc", "plain", "special")
	s := c.Tools[1]
	s.TimeoutMs, s.ReadOnly, s.Idempotent, s.RequiresUserApproval = 1500, true, true, true
	announce(t, url, c)
	becomes(t, live, "plain special")
	plain, _ := live.Now().Tool("plain")
	special, _ := live.Now().Tool("special")
	if p := plain.Tool; p.Timeout != 0 || p.ReadOnly || p.Idempotent || p.RequiresUserApproval || p.Schema == nil {
		t.Errorf("plain is %+v", p)
	}
	if p := special.Tool; p.Timeout != 1500*time.Millisecond || !p.ReadOnly || !p.Idempotent || !p.RequiresUserApproval {
		t.Errorf("special is %+v", p)
	}
}

// Before 2026-07-28 an output schema describes an object.
func TestLegacyTools(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	c := tools("svc", "any", "none", "object", "text")
	for i, schema := range map[int]string{0: `{}`, 2: `{"type":"object"}`, 3: `{"type":"string"}`} {
		name := c.Tools[i].Name
		c.Tools[i].Json = []byte(`{"name":"` + name + `",` + "\r\n" + `"inputSchema":{"type":"object"},"outputSchema":` + schema + `}`)
	}
	announce(t, url, c)
	becomes(t, live, "any none object text")
	for kind, want := range map[catalogue.Kind]int{catalogue.Tools: 3, catalogue.LegacyTools: 1} {
		p, err := pageOf(live.Now(), kind, nil)
		if err != nil || bytes.Count(p, []byte(`"outputSchema"`)) != want || bytes.Count(p, []byte(`"name"`)) != 4 || bytes.ContainsAny(p, "\r\n") || !bytes.HasPrefix(p, []byte(`"tools":[{`)) {
			t.Errorf("list %d: %s, %v", kind, p, err)
		}
	}
	for name, loose := range map[string]bool{"any": true, "none": false, "object": false, "text": true} {
		if target, _ := live.Now().Tool(name); target.Tool.LooseOutput != loose {
			t.Errorf("%s: loose %v", name, !loose)
		}
	}
}

// tenant is an audience that sees everything of a tenant.
type tenant string

func (t tenant) Tenant() string     { return string(t) }
func (tenant) View() catalogue.View { return nil }

// told waits until all subscribers are told of the present snapshot: they are told after it is
// there, and before anybody else subscribes.
func told(l *catalogue.Live) { l.Subscribe(tenant(""), nil).Close() }

func TestSubscribe(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	prompt := &busv1.Prompt{Name: "p", Json: []byte(`{"name":"p"}`)}
	a := announce(t, url, tools("svc", "one"))
	becomes(t, live, "one")
	sub, closed := live.Subscribe(tenant(""), nil), live.Subscribe(tenant(""), nil)
	defer sub.Close()
	closed.Close()
	takes := func(what string, want catalogue.Change) {
		t.Helper()
		var got catalogue.Change
		for deadline := time.After(time.Minute); got != want; {
			select {
			case <-sub.C:
				c, _ := sub.Take()
				if got |= c; got&^want != 0 {
					t.Fatalf("%s: told of %b, want %b", what, got, want)
				}
			case <-deadline:
				t.Fatalf("%s: told of %b, want %b", what, got, want)
			}
		}
	}
	c := tools("svc", "one", "two")
	a.update(c)
	takes("a tool more", catalogue.ToolsChanged)
	c.Prompts = []*busv1.Prompt{prompt}
	a.update(c)
	takes("a prompt more", catalogue.PromptsChanged)
	c.ResourceTemplates = []*busv1.ResourceTemplate{{UriTemplate: "x:///{y}", Json: []byte(`{"uriTemplate":"x:///{y}"}`)}}
	a.update(c)
	takes("a template more", catalogue.ResourcesChanged)

	// One more instance does not change the lists, and neither does another schema of a tool with
	// the same entry.
	announce(t, url, tools("silent"))
	bustest.Eventually(t, "silent is there", func() bool { return len(live.Services()) == 2 })
	told(live)
	select {
	case <-sub.C:
		t.Errorf("told of a change when there was none")
	default:
	}

	// Many changes while nobody takes them become one.
	for _, n := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		a.update(tools("svc", n...))
		becomes(t, live, strings.Join(n, " "))
	}
	told(live)
	<-sub.C
	if got, _ := sub.Take(); got != catalogue.ToolsChanged|catalogue.PromptsChanged|catalogue.ResourcesChanged {
		t.Errorf("told of %b", got)
	}
	select {
	case <-sub.C:
		t.Error("changes that nobody took are told one by one")
	default:
	}
	select {
	case <-closed.C:
		t.Error("a closed subscription is told")
	default:
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	announce(t, url, tools("a", "one"))
	if err := live.Await(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	came := make(chan error, 1)
	go func() { came <- live.Await(t.Context(), "a", "b") }()
	announce(t, url, tools("b", "two"))
	if err := <-came; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := live.Await(ctx, "c"); err == nil {
		t.Error("a service is there that is not")
	}
}

func TestWatchFails(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	conn.Close()
	if l, err := catalogue.Watch(t.Context(), conn, bustest.Logger(t)); err == nil || l != nil {
		t.Errorf("got %v, %v", l, err)
	}
}
