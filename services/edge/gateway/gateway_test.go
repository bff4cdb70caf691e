package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// policies record which of them are asked, in order, and refuse as told.
type policies struct {
	gateway.Open
	mu      sync.Mutex
	asked   []string
	refuse  map[string]error
	records []gateway.Record
	once    func(v gateway.View, run func(context.Context, gateway.Permit) (*gateway.Answer, error)) (*gateway.Answer, error)
}

func (p *policies) ask(link string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, link)
	return p.refuse[link]
}

func (p *policies) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	return gateway.Principal{Name: "user of " + c.Bearer, Tenant: "t", Scopes: []string{"s"}}, p.ask("authenticate")
}
func (p *policies) Authorize(context.Context, gateway.View) error { return p.ask("authorize") }
func (p *policies) Hold(context.Context, *store.HeldCall) error   { return p.ask("approve") }
func (p *policies) Held(context.Context, string, func(*store.HeldCall)) error {
	return p.ask("approve")
}
func (p *policies) Look(context.Context, string, string) (*store.HeldCall, error) {
	return nil, p.ask("approve")
}
func (p *policies) Take(context.Context, string, string) (*store.HeldCall, error) {
	return nil, p.ask("approve")
}
func (p *policies) Return(context.Context, *store.HeldCall) error     { return nil }
func (p *policies) Unuse(context.Context, string) error               { return nil }
func (p *policies) Use(context.Context, string, string) (bool, error) { return true, p.ask("approve") }
func (p *policies) Acquire(context.Context, gateway.View) (func(), error) {
	return func() { _ = p.ask("release") }, p.ask("limit")
}
func (p *policies) Once(ctx context.Context, v gateway.View, run func(context.Context, gateway.Permit) (*gateway.Answer, error)) (*gateway.Answer, error) {
	if err := p.ask("deduplicate"); err != nil {
		return nil, err
	}
	if p.once != nil {
		return p.once(v, run)
	}
	return run(ctx, nil)
}

// Earlier has no record of any key.
func (p *policies) Earlier(context.Context, gateway.View) (*gateway.Answer, bool, error) {
	return nil, false, nil
}

// Ran has no record of any key.
func (p *policies) Ran(context.Context, gateway.View) fault.Executed { return fault.No }

func (p *policies) Ready(gateway.View) error { return nil }

func (p *policies) Begin(context.Context, gateway.View) error { return p.ask("begin") }
func (p *policies) Record(_ context.Context, r gateway.Record) error {
	err := p.ask("audit")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
	return err
}

// last is the last audited call.
func (p *policies) last(t *testing.T) gateway.Record {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records) == 0 {
		t.Fatal("nothing was audited")
	}
	return p.records[len(p.records)-1]
}

type world struct {
	gateway *gateway.Gateway
	caller  *edges.Caller
	live    *catalogue.Live
	svc     *edgetest.Service
	policies
}

// start makes a gateway with w as its policies; change may change the configuration.
func start(t *testing.T, change func(w *world, cfg *gateway.Config)) *world {
	t.Helper()
	return startOn(t, bustest.Server(t), change)
}

func startOn(t *testing.T, url string, change func(w *world, cfg *gateway.Config)) *world {
	t.Helper()
	w := &world{svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, url))
	w.gateway = join(t, bustest.Connect(t, url), "svc", func(cfg *gateway.Config) {
		cfg.Auditor = w
		if change != nil {
			change(w, cfg)
		}
		w.caller, w.live = cfg.Caller, cfg.Catalogue
	})
	return w
}

// join makes a gateway with a connection, which knows a service; change may change its
// configuration.
func join(t *testing.T, conn *bus.Conn, service string, change func(cfg *gateway.Config)) *gateway.Gateway {
	t.Helper()
	caller, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	live, err := catalogue.Watch(ctx, conn, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	if err := live.Await(ctx, service); err != nil {
		t.Fatal(err)
	}
	cfg := gateway.Config{Caller: caller, Catalogue: live, Tasks: task.Open(conn), Logger: bustest.Logger(t)}
	change(&cfg)
	return gateway.New(cfg)
}

// approvals are the held calls of a bus.
func approvals(t *testing.T, url string) *store.Approvals {
	t.Helper()
	return store.NewApprovals(bustest.Connect(t, url))
}

// approve decides on a held call at the desk of a gateway, as somebody.
func approve(t *testing.T, g *gateway.Gateway, who gateway.Credentials, id string, yes bool) (*gateway.Answer, error) {
	t.Helper()
	return heard(t, func() (*gateway.Answer, error) { return g.Approve(t.Context(), "desk", who, id, yes, nil) })
}

// reply answers an elicitation there.
func reply(t *testing.T, g *gateway.Gateway, who gateway.Credentials, id, with string) (*gateway.Answer, error) {
	t.Helper()
	return heard(t, func() (*gateway.Answer, error) { return g.Answer(t.Context(), "desk", who, id, []byte(with), nil) })
}

// begin makes a call, and sends its error when it ends.
func begin(ctx context.Context, g *gateway.Gateway, c *gateway.Call) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := g.Do(ctx, c, nil)
		ended <- err
	}()
	return ended
}

// is reports whether a call failed for this reason, and was executed or not.
func is(err error, reason fault.Reason, executed fault.Executed) bool {
	f := fault.From(err)
	return err != nil && f.Reason == reason && f.Executed == executed
}

// all puts the recording policies at every link.
func all(w *world, cfg *gateway.Config) {
	cfg.Authenticator, cfg.Access, cfg.Limiter, cfg.Approvals, cfg.Deduplicator = w, w, w, w, w
}

func toolCall(name, arguments string) *gateway.Call {
	return &gateway.Call{Door: "test", Method: mcp.MethodToolsCall, Name: name, Arguments: []byte(arguments)}
}

// fails requires a refusal, in the answer and in the audit trail.
func (w *world) fails(t *testing.T, c *gateway.Call, reason fault.Reason, executed fault.Executed) *fault.Error {
	t.Helper()
	do := func() (*gateway.Answer, error) {
		again := *c
		return w.gateway.Do(t.Context(), &again, nil)
	}
	answer, err := do()
	if reason != fault.Unavailable && err != nil && bustest.StoodStill(err.Error()) {
		answer, err = heard(t, do)
	}
	var f *fault.Error
	if !errors.As(err, &f) || answer != nil {
		t.Fatalf("got %v, %v; want %s", answer, err, reason)
	}
	if f.Reason != reason || f.Executed != executed {
		t.Fatalf("got %s, executed %s (%v); want %s, %s", f.Reason, f.Executed, err, reason, executed)
	}
	if r := w.last(t); r.Outcome != string(reason) || r.Err == nil || r.Door != c.Door || r.Method != c.Method || r.Name != c.Name {
		t.Errorf("audited %+v", r)
	}
	return f
}

// heard calls f until NATS answers: calls that are refused because it is silent are made again.
func heard(t *testing.T, f func() (*gateway.Answer, error)) (answer *gateway.Answer, err error) {
	t.Helper()
	err = bustest.Heard(t, func() (err error) {
		answer, err = f()
		return err
	})
	return answer, err
}

func (w *world) works(t *testing.T, c *gateway.Call) *gateway.Answer {
	t.Helper()
	answer, err := heard(t, func() (*gateway.Answer, error) {
		again := *c
		return w.gateway.Do(t.Context(), &again, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// agreed returns calls of the tool that needs approval, which a user approved.
func (w *world) agreed(t *testing.T, bearer string) func() *gateway.Call {
	t.Helper()
	call := func() *gateway.Call {
		c := toolCall("approved", "{}")
		c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}
		c.Credentials, c.IdempotencyKey = gateway.Credentials{Bearer: bearer}, "k"
		return c
	}
	state := w.works(t, call()).InputRequired.GetRequestState()
	w.asked = nil
	return func() *gateway.Call {
		c := call()
		c.RequestState, c.InputResponses = bytes.Clone(state), []byte(`{"io.github.busbar-mcp/approval":{"action":"accept","content":{"approve":true}}}`)
		return c
	}
}

func TestChainOrder(t *testing.T) {
	t.Parallel()
	w := start(t, all)
	c := w.agreed(t, "x")()
	w.works(t, c)
	if got := strings.Join(w.asked, " "); got != "authenticate limit authorize deduplicate approve begin release audit" {
		t.Errorf("asked in the order %s", got)
	}
	if r := w.last(t); r.Outcome != "ok" || r.Principal.Name != "user of x" || r.Target.Service != "svc" || r.Duration <= 0 || r.Received.IsZero() {
		t.Errorf("audited %+v of %+v", r, r.Call)
	}
}

func TestEachLinkStopsTheRest(t *testing.T) {
	t.Parallel()
	reasons := map[string]fault.Reason{
		"authenticate": fault.Unauthenticated, "authorize": fault.Forbidden, "limit": fault.RateLimited, "approve": fault.Forbidden, "deduplicate": fault.Conflict, "begin": fault.Unavailable,
	}
	w := start(t, all)
	c := w.agreed(t, "")
	order := []string{"authenticate", "limit", "authorize", "deduplicate", "approve", "begin"}
	for i, link := range order {
		w.asked, w.refuse = nil, map[string]error{link: fault.New(reasons[link], "no")}
		w.fails(t, c(), reasons[link], fault.No)
		want := slices.Clone(order[:i+1])
		if i > 1 {
			want = append(want, "release")
		}
		want = append(want, "audit")
		if link == "limit" { // whether the caller may know of the tool decides what it is told about its key
			want = append(want, "authorize")
		}
		if !slices.Equal(w.asked, want) {
			t.Errorf("%s refuses: asked %v, want %v", link, w.asked, want)
		}
	}
	// A client does not see the text of an internal error.
	w.refuse = map[string]error{"authorize": errors.New("dial tcp policy.internal")}
	if f := w.fails(t, c(), fault.Internal, fault.Unknown); strings.Contains(f.Message, "policy.internal") {
		t.Errorf("message %q", f.Message)
	}
	// A call of a missing tool is counted, too, and nobody is asked whether it may be called.
	w.asked, w.refuse = nil, nil
	w.fails(t, toolCall("nope", "{}"), fault.UnknownTool, fault.No)
	if !slices.Equal(w.asked, []string{"authenticate", "limit", "release", "audit"}) {
		t.Errorf("unknown tool: asked %v", w.asked)
	}
	if n := w.svc.Calls.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	long := strings.Repeat("ü", 300)
	for name, c := range map[string]struct {
		call   *gateway.Call
		reason fault.Reason
		says   string
		data   string
	}{
		"type":                {toolCall("strict", `{"text":1}`), fault.InvalidParams, "/text: got number, want string", `"parameter":"text"`},
		"required":            {toolCall("strict", `{}`), fault.InvalidParams, "text", `"detail":`},
		"no arguments":        {toolCall("strict", ``), fault.InvalidParams, "text", ``},
		"unknown argument":    {toolCall("strict", `{"text":"a","more":1}`), fault.InvalidParams, "more", ``},
		"null":                {toolCall("strict", `{"text":null}`), fault.InvalidParams, "/text", ``},
		"unknown tool":        {toolCall("nope", `{}`), fault.UnknownTool, "Unknown tool: nope", ``},
		"empty name":          {toolCall("", `{}`), fault.UnknownTool, "Unknown tool", ``},
		"wildcard":            {toolCall("*", `{}`), fault.UnknownTool, "Unknown tool: *", ``},
		"subject":             {toolCall("svc.echo", `{}`), fault.UnknownTool, "", ``},
		"long name":           {toolCall(long, `{}`), fault.UnknownTool, "…", ``},
		"prompt":              {&gateway.Call{Method: mcp.MethodPromptsGet, Name: "nope"}, fault.UnknownPrompt, "Unknown prompt: nope", ``},
		"a tool is no prompt": {&gateway.Call{Method: mcp.MethodPromptsGet, Name: "echo"}, fault.UnknownPrompt, "", ``},
		"resource":            {&gateway.Call{Method: mcp.MethodResourcesRead, Name: `no:///"x"`}, fault.UnknownResource, "", `"uri":"no:///\"x\""`},
		"bad UTF-8":           {&gateway.Call{Method: mcp.MethodResourcesRead, Name: "\xff"}, fault.UnknownResource, "", ``},
		"method":              {&gateway.Call{Method: "tools/destroy"}, fault.MethodNotFound, "tools/destroy", ``},
		"completion, empty":   {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{}`)}, fault.InvalidParams, "params.ref", ``},
		"completion, none":    {&gateway.Call{Method: mcp.MethodComplete}, fault.InvalidParams, "params.ref", ``},
		"completion, type":    {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/tool","name":"echo"},"argument":{"name":"a","value":""}}`)}, fault.InvalidParams, "params.ref.type", ``},
		"completion, prompt":  {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}`)}, fault.UnknownPrompt, "", ``},
		"completion, uri":     {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/resource","uri":"x"},"argument":{"name":"a","value":""}}`)}, fault.UnknownResource, "", ``},
	} {
		t.Run(name, func(t *testing.T) {
			f := w.fails(t, c.call, c.reason, fault.No)
			if !strings.Contains(f.Message, c.says) || !strings.Contains(string(f.Data), c.data) || len(f.Message) > 400 {
				t.Errorf("message %q, data %s", f.Message, f.Data)
			}
			if is := errors.Is(f, gateway.ErrInvalidArguments); is != (c.reason == fault.InvalidParams && c.call.Method == mcp.MethodToolsCall) {
				t.Errorf("is ErrInvalidArguments: %v", is)
			}
		})
	}
	if n := w.svc.Calls.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
	}
}

func TestEveryMethodReachesItsService(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, c := range map[string]struct {
		call *gateway.Call
		want string
	}{
		"tool":            {toolCall("echo", ` {"n": 1} `), `{\"n\": 1}`},
		"no arguments":    {toolCall("echo", ``), `"text":"{}"`},
		"prompt":          {&gateway.Call{Method: mcp.MethodPromptsGet, Name: "greet", Arguments: []byte(`{"who":"Ada"}`)}, "Hello Ada"},
		"resource":        {&gateway.Call{Method: mcp.MethodResourcesRead, Name: "note:///by/7"}, "it is 7"},
		"prompt argument": {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`)}, "Ada"},
		"template":        {&gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/resource","uri":"note:///by/{id}"},"argument":{"name":"id","value":""}}`)}, "seven"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(w.works(t, c.call).Result.GetJson()); !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	elicits := &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}
	for outcome, c := range map[string]*gateway.Call{
		"ok": toolCall("echo", "{}"), "tool_error": toolCall("fails", "{}"), "input_required": {Method: mcp.MethodToolsCall, Name: "ask", Client: elicits},
	} {
		w.works(t, c)
		r := w.last(t)
		if r.Outcome != outcome || r.Err != nil {
			t.Errorf("audited %q, want %q", r.Outcome, outcome)
		}
		if ran := outcome != "input_required"; ran != (r.Executed() == fault.Yes) || ran == (r.Executed() == fault.No) {
			t.Errorf("%s is audited as executed %s", outcome, r.Executed())
		}
	}
	w.fails(t, toolCall("broken", "{}"), fault.Internal, fault.Unknown)
	w.fails(t, toolCall("panics", "{}"), fault.Internal, fault.Unknown)
}

func TestApprovalIsRefusedByDefault(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	if f := w.fails(t, toolCall("approved", "{}"), fault.Forbidden, fault.No); !strings.Contains(f.Message, "approved") {
		t.Errorf("message %q", f.Message)
	}
	if w.svc.Calls.Load() != 0 {
		t.Error("it ran")
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := start(t, all)
	var first *gateway.Answer
	w.once = func(c gateway.View, run func(context.Context, gateway.Permit) (*gateway.Answer, error)) (*gateway.Answer, error) {
		if c.IdempotencyKey != "k" || c.Name != "safe" {
			t.Errorf("asked about key %q of %s", c.IdempotencyKey, c.Name)
		}
		var err error
		if first == nil {
			first, err = run(t.Context(), nil)
		}
		return first, err
	}
	for range 3 {
		c := toolCall("safe", "{}")
		c.IdempotencyKey = "k"
		if a := w.works(t, c); a != first {
			t.Error("another answer")
		}
	}
	if n := w.svc.Calls.Load(); n != 1 {
		t.Errorf("%d calls ran", n)
	}
	w.asked = nil
	w.works(t, toolCall("safe", "{}"))
	if slices.Contains(w.asked, "deduplicate") {
		t.Error("a call without a key is deduplicated")
	}
}
