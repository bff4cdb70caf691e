// Package batch tests tools that call tools as clients meet them: the tool batch, and writePlan,
// behind two edges that know their callers.
package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/batch"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/planning"
	"github.com/busbar-mcp/busbar/services/resource"
)

// users takes each token as the name of its principal.
type users struct{}

func (users) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no token")
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme"}, nil
}

// as sends a user's token with each request.
type as struct{ token string }

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return http.DefaultTransport.RoundTrip(r)
}

type world struct {
	bus   string
	edges []string
	// running counts the handlers of "slow" at work, most is the highest.
	mu            sync.Mutex
	running, most int
	slowStarted   chan struct{}
	slowEnded     chan struct{}
	release       chan struct{}
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{
		bus: bustest.Server(t), slowStarted: make(chan struct{}, 1000), slowEnded: make(chan struct{}, 1000), release: make(chan struct{}),
	}
	run := func(s *service.Service) { servicetest.Join(t, bustest.Connect(t, w.bus), s) }
	env := service.DataEnv{Env: service.Env{Log: bustest.Logger(t)}, DataDir: t.TempDir()}
	run(w.service(t))
	run(servicetest.Build(t, batch.New, env.Env))
	run(servicetest.Build(t, planning.New, env.Env))
	run(servicetest.Build(t, resource.New, resource.Env{DataEnv: env}))
	for range 2 {
		e, err := edge.New(t.Context(), bustest.Join(t, w.bus), edge.Config{Version: "1", Authenticator: users{}, Logger: bustest.Logger(t), Audit: edge.Audit{Off: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		if err := e.Await(t.Context(), "svc", "batch", "planning", "resource"); err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
		t.Cleanup(srv.Close)
		t.Cleanup(e.Server().Close)
		w.edges = append(w.edges, srv.URL)
	}
	return w
}

func (w *world) service(t *testing.T) *service.Service {
	s := service.New("svc", service.WithLogger(bustest.Logger(t)))
	service.AddTool(s, service.Tool{Name: "who"}, func(_ context.Context, c *service.Call, in struct {
		N int64 `json:"n,omitzero"`
	}) (map[string]any, error) {
		return map[string]any{"who": c.Tenant() + "/" + c.Principal(), "by": c.Client().Name, "n": in.N}, nil
	})
	service.AddTool(s, service.Tool{Name: "fails"}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "", service.Errorf("no such city")
	})
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "done", nil
	})
	service.AddTool(s, service.Tool{Name: "large"}, func(context.Context, *service.Call, struct{}) (string, error) {
		return strings.Repeat("x", 2<<20), nil
	})
	service.AddTool(s, service.Tool{Name: "slow"}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		w.mu.Lock()
		w.running++
		w.most = max(w.most, w.running)
		w.mu.Unlock()
		w.slowStarted <- struct{}{}
		defer func() {
			w.mu.Lock()
			w.running--
			w.mu.Unlock()
			w.slowEnded <- struct{}{}
		}()
		select {
		case <-w.release:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return s
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	for at := range w.edges {
		s := w.connect(t, at, "ada", nil)
		var out batch.Out
		call(t, s, "batch", `{"calls":[
			{"name":"who","arguments":{"n":9007199254740993}},
			{"name":"nothing"},
			{"name":"fails"},
			{"name":"who","arguments":{"x":1}},
			{"name":"approved"},
			{"name":"batch","arguments":{"calls":[{"name":"who"}]}},
			{"name":"who"}]}`, &out)
		if out.Succeeded != 2 || out.Failed != 5 || len(out.Results) != 7 {
			t.Fatalf("%+v", out)
		}
		for i, want := range []string{
			`{"by":"batch","n":9007199254740993,"who":"acme/ada"}`,
			"unknown_tool no Unknown tool: nothing",
			`[{"type":"text","text":"no such city"}]`,
			"invalid_params no ",
			"approval_required no ",
			"invalid_params no a batch cannot hold a batch",
			`{"by":"batch","n":0,"who":"acme/ada"}`,
		} {
			r := out.Results[i]
			got := string(r.StructuredContent) + string(r.Content)
			if got == "" {
				got = fmt.Sprintf("%s %s %s", r.Reason, r.Executed, r.Error)
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("call %d: %s; want %s", i, got, want)
			}
			if failed := i != 0 && i != 6; r.IsError != failed {
				t.Errorf("call %d failed: %t", i, r.IsError)
			}
		}
		if next := out.Results[1].Next; next != "tools/list lists the tools" {
			t.Errorf("over MCP the way on is %q", next)
		}
		if answer := w.post(t, at, "ada", "/tools/batch", `{"calls":[{"name":"nothing"}]}`); !strings.Contains(answer, `"next":"GET /tools lists the tools"`) {
			t.Errorf("over REST the way on is not REST's: %s", answer)
		}
		// The held call is the caller's, who may agree to it at any edge.
		if answer := w.approve(t, 1-at, "eve", out.Results[4].Approval); !strings.Contains(answer, "unknown_approval") {
			t.Errorf("somebody else agreed: %s", answer)
		}
		if answer := w.approve(t, 1-at, "ada", out.Results[4].Approval); !strings.Contains(answer, "done") {
			t.Errorf("approval of %+v: %s", out.Results[4], answer)
		}
	}
}

// Results that are too large together lose some, and say so.
func TestResultsTooLarge(t *testing.T) {
	t.Parallel()
	w := start(t)
	var out batch.Out
	call(t, w.connect(t, 0, "ada", nil), "batch", `{"calls":[{"name":"large"},{"name":"large"},{"name":"large"},{"name":"large"}]}`, &out)
	if out.Succeeded != 2 || out.Failed != 2 {
		t.Fatalf("%d succeeded, %d failed", out.Succeeded, out.Failed)
	}
	for _, r := range out.Results {
		if r.IsError && (r.Reason != "result_too_large" || r.Executed != "yes") {
			t.Errorf("%s %s %s", r.Reason, r.Executed, r.Error)
		}
	}
}

// A batch runs as many calls at once as it may, tells how far it is, and takes
// all of them with it when its client leaves.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := start(t)
	progress := make(chan float64, 100)
	s := w.connect(t, 0, "ada", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		progress <- r.Params.Progress
	}})
	calls := strings.TrimSuffix(strings.Repeat(`{"name":"slow"},`, 10), ",")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "batch", Arguments: json.RawMessage(`{"parallel":3,"calls":[` + calls + `]}`)}
		p.SetProgressToken("p")
		_, err := s.CallTool(ctx, p)
		ended <- err
	}()
	for range 3 {
		receive(t, "a call starts", w.slowStarted)
	}
	w.release <- struct{}{}
	receive(t, "a call ends", w.slowEnded)
	receive(t, "the next starts", w.slowStarted)
	if p := receive(t, "progress", progress); p != 1 {
		t.Errorf("progress %v", p)
	}
	cancel()
	for range 3 {
		receive(t, "a call under way ends", w.slowEnded)
	}
	if err := receive(t, "the batch ends", ended); err == nil {
		t.Error("no error")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != 3 || len(w.slowStarted) != 0 {
		t.Errorf("%d ran at once; %d were begun after the client left", w.most, len(w.slowStarted))
	}
}

// A plan is written as a resource of its caller's tenant, in the words of its
// task, and never over another unless that is wanted.
func TestWritePlan(t *testing.T) {
	t.Parallel()
	w := start(t)
	changed := make(chan string, 8)
	watcher := w.connect(t, 1, "bob", &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
		changed <- r.Params.URI
	}})
	s := w.connect(t, 0, "ada", nil)
	const arguments = `"uri":"plan://billing","task":"Перенести биллинг в Postgres без простоя","requirements":["Откат за 5 минут"]`
	var out planning.WriteOut
	r := call(t, s, "writePlan", `{`+arguments+`}`, &out)
	if r.IsError || out.URI != "plan://billing" || out.Revision != 1 || len(out.Plan) < 3 {
		t.Fatalf("%+v %+v", r, out)
	}
	link, ok := r.Content[1].(*mcp.ResourceLink)
	if !ok || link.URI != out.URI || link.Name != "Перенести биллинг в Postgres без простоя" {
		t.Errorf("%+v", r.Content)
	}
	read := func() *mcp.ResourceContents {
		t.Helper()
		var r *mcp.ReadResourceResult
		if err := bustest.Heard(t, func() (err error) {
			r, err = watcher.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return r.Contents[0]
	}
	first := read()
	text := first.Text
	for _, step := range out.Plan {
		if !strings.Contains(text, fmt.Sprintf("- [ ] **%d.** %s", step.ID, step.Description)) {
			t.Errorf("step %d is not in\n%s", step.ID, text)
		}
	}
	if first.MIMEType != "text/markdown" || !strings.Contains(text, "Откат за 5 минут") {
		t.Errorf("%s\n%s", first.MIMEType, text)
	}

	if err := bustest.Heard(t, func() error { return watcher.Subscribe(t.Context(), &mcp.SubscribeParams{URI: out.URI}) }); err != nil {
		t.Fatal(err)
	}
	if r := call(t, s, "writePlan", `{`+arguments+`}`, nil); !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "replace: true") {
		t.Errorf("%+v", r.Content[0])
	}
	out = planning.WriteOut{}
	call(t, s, "writePlan", `{"format":"json","replace":true,`+arguments+`}`, &out)
	if out.Revision != 2 || out.MIMEType != "application/json" {
		t.Errorf("%+v", out)
	}
	// The other edge may only now have heard of the subscription.
	bustest.Eventually(t, "the update is heard at the other edge", func() bool {
		select {
		case uri := <-changed:
			if uri != out.URI {
				t.Errorf("%s changed", uri)
			}
			return true
		case <-time.After(time.Second):
			call(t, s, "writePlan", `{"format":"json","replace":true,`+arguments+`}`, nil)
			return false
		}
	})
	// The written file is valid input for the other tools.
	var kept struct {
		Plan json.RawMessage `json:"plan"`
	}
	if err := json.Unmarshal([]byte(read().Text), &kept); err != nil {
		t.Fatal(err)
	}
	var valid planning.ValidateOut
	call(t, s, "validatePlan", `{"plan":`+string(kept.Plan)+`}`, &valid)
	if !valid.Valid {
		t.Errorf("%+v", valid)
	}
	if r := call(t, s, "writePlan", `{"uri":"no uri","task":"Buy bread"}`, nil); !r.IsError {
		t.Errorf("%+v", r)
	}
}
