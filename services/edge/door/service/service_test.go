package service_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// users authenticates by token: each token names its principal.
type users struct{}

func (users) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no token")
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme", Scopes: []string{"s"}}, nil
}

type call struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
}

// world is a bus with two edges and a service whose tools call others.
type world struct {
	url   string
	edges [2]http.Handler
}

// start makes the world. started and stopped report on calls of the tool hold.
func start(t *testing.T) (w *world, started, stopped chan struct{}) {
	t.Helper()
	w = &world{url: bustest.Server(t)}
	started, stopped = make(chan struct{}, 8), make(chan struct{}, 8)
	s := service.New("svc", service.WithLogger(bustest.Logger(t)))
	relay := func(ctx context.Context, c *service.Call, in call) (string, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: in.Name, Arguments: in.Arguments})
		if err != nil {
			return "", err
		}
		return r.Text(), nil
	}
	service.AddTool(s, service.Tool{Name: "relay", CallsTools: true}, relay)
	service.AddTool(s, service.Tool{Name: "deaf"}, relay)
	service.AddTool(s, service.Tool{Name: "way", CallsTools: true}, func(ctx context.Context, c *service.Call, in call) (string, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: in.Name, Arguments: in.Arguments})
		if err != nil {
			return "way on: " + fault.From(err).Next, nil
		}
		return r.Text(), nil
	})
	service.AddTool(s, service.Tool{Name: "who"}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		return strings.Join([]string{c.Tenant(), c.Principal(), c.Client().Name}, " "), nil
	})
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "done", nil
	})
	service.AddTool(s, service.Tool{Name: "hold"}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		started <- struct{}{}
		<-ctx.Done()
		stopped <- struct{}{}
		return "", ctx.Err()
	})
	running, err := s.Start(t.Context(), bustest.Connect(t, w.url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for i := range w.edges {
		e, err := edge.New(t.Context(), bustest.Connect(t, w.url), edge.Config{Version: "1", Logger: bustest.Logger(t), Authenticator: users{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		if err := e.Await(t.Context(), "svc"); err != nil {
			t.Fatal(err)
		}
		w.edges[i] = e.Handler(door.Guard{})
	}
	return w, started, stopped
}

// call calls a tool as ada through one of the edges.
func (w *world) call(ctx context.Context, at int, tool, arguments string) (status int, body string) {
	return w.post(ctx, at, "/tools/"+tool, arguments)
}

func (w *world) post(ctx context.Context, at int, path, body string) (int, string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer ada")
	rec := httptest.NewRecorder()
	w.edges[at].ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func TestOnBehalfOfTheCaller(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	for name, test := range map[string]struct {
		arguments string
		status    int
		want      string
	}{
		"who calls":         {`{"name":"who"}`, 200, "acme ada svc"},
		"through another":   {`{"name":"relay","arguments":{"name":"who"}}`, 200, "acme ada svc"},
		"no such tool":      {`{"name":"nothing"}`, 404, "Unknown tool: nothing"},
		"invalid arguments": {`{"name":"who","arguments":{"x":1}}`, 400, "Invalid arguments"},
		"no object":         {`{"name":"who","arguments":[1]}`, 400, "Invalid arguments"},
		"held":              {`{"name":"approved"}`, 202, "a person has to approve this call"},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range w.edges {
				if status, body := w.call(t.Context(), at, "relay", test.arguments); status != test.status || !strings.Contains(body, test.want) {
					t.Errorf("edge %d: %d %s; want %d %q", at, status, body, test.status, test.want)
				}
			}
		})
	}
}

// A service receives advice in the terms of the door at which the first client called,
// however deep the call is.
func TestWayOn(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	const nothing = `{"name":"nothing"}`
	deep := `{"name":"way","arguments":` + nothing + `}`
	mcpCall := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"way","arguments":` + arguments + `}}`
	}
	graphQL := func(arguments string) string {
		return `{"query":"mutation($p:JSON){executeTool(input:{name:\"way\",parameters:$p}){content{text}}}","variables":{"p":` + arguments + `}}`
	}
	for door, test := range map[string]struct {
		path string
		body func(string) string
		want string
	}{
		"REST":         {"/tools/way", func(s string) string { return s }, "way on: GET /tools lists the tools"},
		"GraphQL":      {"/graphql", graphQL, "way on: getTools lists the tools"},
		"MCP":          {"/mcp", mcpCall, "way on: tools/list lists the tools"},
		"REST's batch": {"/tools:batch", func(s string) string { return `{"calls":[{"name":"way","parameters":` + s + `}]}` }, "way on: GET /tools lists the tools"},
	} {
		for _, arguments := range []string{nothing, deep} {
			if _, body := w.post(t.Context(), 1, test.path, test.body(arguments)); !strings.Contains(body, test.want) {
				t.Errorf("%s: %s; want %q", door, body, test.want)
			}
		}
	}
}

// A tool that calls itself comes to an end, and says why.
func TestDepth(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	nested := func(depth int) string {
		return strings.Repeat(`{"name":"relay","arguments":`, depth-1) + `{"name":"who"}` + strings.Repeat("}", depth-1)
	}
	if status, body := w.call(t.Context(), 0, "relay", nested(4)); status != http.StatusOK {
		t.Errorf("four deep: %d %s", status, body)
	}
	if status, body := w.call(t.Context(), 0, "relay", nested(5)); status != http.StatusForbidden || !strings.Contains(body, "5 deep") {
		t.Errorf("five deep: %d %s", status, body)
	}
}

// More calls of a tool than its service has slots, each of which waits for another call
// of the same service.
func TestM13NestedCallsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	begun := time.Now()
	done := make(chan string, 100)
	for i := range cap(done) {
		go func() {
			status, body := w.call(t.Context(), i%2, "relay", `{"name":"relay","arguments":{"name":"who"}}`)
			for status == http.StatusServiceUnavailable && strings.Contains(body, "nothing was started: call again") && time.Since(begun) < bustest.Patience {
				status, body = w.call(t.Context(), i%2, "relay", `{"name":"relay","arguments":{"name":"who"}}`) // the machine is slow
			}
			if status != http.StatusOK {
				done <- body
			} else {
				done <- ""
			}
		}()
	}
	for range cap(done) {
		if body := <-done; body != "" {
			t.Error(body)
		}
	}
	if took := time.Since(begun); took > bustest.Patience {
		t.Errorf("took %v", took)
	}
}

func TestOnlyToolsThatDeclareIt(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	if status, body := w.call(t.Context(), 0, "deaf", `{"name":"who"}`); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, body)
	}
}

// No call runs after its caller gave up, however many calls stand between.
func TestCancel(t *testing.T) {
	t.Parallel()
	w, started, stopped := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	begun := time.Now()
	w.call(ctx, 0, "relay", `{"name":"relay","arguments":{"name":"hold"}}`)
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatalf("runs on %v after its client left", time.Since(begun))
	}
}

// A service's own statement about its caller counts for nothing: only the edge's sealed
// one counts.
func TestForged(t *testing.T) {
	t.Parallel()
	w, _, _ := start(t)
	conn := bustest.Connect(t, w.url)
	caller, err := bus.NewGatewayCaller(conn, "raw")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	genuine := w.delegation(t, conn)
	forged := slices.Clone(genuine)
	forged[len(forged)-1] ^= 1
	ask := func(delegation []byte) (*busv1.Frame, error) {
		return caller.Call(t.Context(), bus.Gateway, &busv1.Request{
			Method: mcp.MethodToolsCall, Name: "who", Delegation: delegation,
			Identity: &busv1.Identity{Principal: "root", Tenant: "other"},
			Client:   &busv1.Client{Name: "somebody"},
		}, nil)
	}
	for name, delegation := range map[string][]byte{"none": nil, "short": {1}, "changed": forged, "cut": genuine[:40]} {
		if _, err := ask(delegation); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := caller.Call(t.Context(), bus.Gateway, &busv1.Request{Method: mcp.MethodResourcesRead, Name: "x:y", Delegation: genuine}, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a resource: %v", err)
	}
	thief, err := bus.NewGatewayCaller(conn, "thief")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = thief.Close() }()
	if _, err := thief.Call(t.Context(), bus.Gateway, &busv1.Request{Method: mcp.MethodToolsCall, Name: "who", Delegation: genuine}, nil); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another service calls with it: %v", err)
	}
	frame, err := ask(genuine)
	if err != nil || !strings.Contains(string(frame.GetResult().GetJson()), "acme ada raw") {
		t.Errorf("%v %v", frame, err)
	}
}

// delegation is the delegation that a service gets with a call of the tool "raw".
func (w *world) delegation(t *testing.T, conn *bus.Conn) []byte {
	t.Helper()
	given := make(chan []byte, 1)
	server, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "raw", Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		given <- req.Delegation
		return &busv1.Result{Json: []byte(`{"content":[]}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Drain(context.Background()) })
	announcer, err := registry.Announce(conn, "raw", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "raw", Tools: []*busv1.Tool{{
		Name: "raw", Json: []byte(`{"name":"raw","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`), CallsTools: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { announcer.Withdraw(context.Background()) })
	bustest.Eventually(t, "the tool raw", func() bool {
		status, _ := w.call(t.Context(), 0, "raw", `{}`)
		return status == http.StatusOK
	})
	return <-given
}
