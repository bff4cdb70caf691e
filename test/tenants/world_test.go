// Package tenants tries everything that one principal could learn of another's, or do
// to it: two tenants with two principals each, through every door.
package tenants

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/test/testservice"
	edges "github.com/busbar-mcp/busbar/test/world"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// Principals by their tokens, TENANT:NAME. Text after a # distinguishes tokens of one principal.
const (
	ada    = "acme:ada"
	again  = "acme:ada#2"
	amy    = "acme:amy"
	bob    = "beta:bob"
	nobody = ""
)

// strangers to ada's things.
var strangers = []string{bob, amy, nobody}

// tokens is the Authenticator.
type tokens struct {
	mu      sync.Mutex
	revoked map[string]bool
	tell    []func(string)
}

func (k *tokens) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	who, _, _ := strings.Cut(c.Bearer, "#")
	tenant, name, ok := strings.Cut(who, ":")
	if !ok || k.revoked[c.Bearer] {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "a valid token is needed")
	}
	return gateway.Principal{Name: name, Tenant: tenant, Credential: c.Bearer}, nil
}

// OnEnded implements gateway.Ender.
func (k *tokens) OnEnded(f func(string)) (stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell = append(k.tell, f)
	return func() {}
}

func (k *tokens) revoke(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revoked[token] = true
	for _, f := range k.tell {
		f(token)
	}
}

// world is two edges with all doors but stdio, and services that own something.
type world struct {
	nats   string
	tokens *tokens
	access gateway.Access
	client *http.Client
	ledger testservice.Ledger
	// edges are two of one bus.
	edges [2]node
}

// node is an edge.
type node struct {
	host string // of the HTTP doors
	grpc gatewayv1.GatewayServiceClient
}

// together is a world of tests that neither add services nor count what everybody hears.
var together = bustest.Shared[*world]{Start: newWorld}

func newWorld(t testing.TB) *world { return newWorldWith(t, gateway.Open{}) }

func newWorldWith(t testing.TB, access gateway.Access) *world {
	t.Helper()
	w := &world{
		nats: bustest.Server(t), tokens: &tokens{revoked: map[string]bool{}}, access: access, client: &http.Client{Transport: &http.Transport{}},
	}
	t.Cleanup(w.client.CloseIdleConnections)
	env := service.Env{Log: bustest.Logger(t)}
	data := func() service.DataEnv { return service.DataEnv{Env: env, DataDir: filepath.Join(t.TempDir(), "data")} }
	conn := bustest.Connect(t, w.nats)
	w.run(t)(audit.New(t.Context(), audit.Env{DataEnv: data(), AckWait: time.Second}))
	w.run(t)(prompt.New(t.Context(), prompt.Env{DataEnv: data()}))
	w.run(t)(resource.New(t.Context(), resource.Env{DataEnv: data()}))
	servicetest.Join(t, conn, testservice.New(&w.ledger))
	servicetest.Join(t, conn, w.whose())
	for i := range w.edges {
		w.edges[i] = w.serve(t, edge.Audit{}, "audit", "prompt", "resource", "testservice", "whose")
	}
	return w
}

func (w *world) run(t testing.TB) func(*service.Service, error) {
	return func(s *service.Service, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Start(t.Context(), bustest.Join(t, w.nats))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
			defer cancel()
			_ = r.Stop(ctx)
		})
	}
}

type who struct {
	Who string `json:"who"`
	N   int    `json:"n"`
}

// whose is a service that names its caller.
func (w *world) whose() *service.Service {
	s := service.New("whose", service.WithVersion("1.0.0"))
	calls := 0
	var mu sync.Mutex
	said := func(_ context.Context, c *service.Call, _ struct {
		X int `json:"x,omitzero"`
	}) (who, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return who{c.Tenant() + "/" + c.Principal(), calls}, nil
	}
	service.AddTool(s, service.Tool{Name: "who", ReadOnly: true}, said)
	service.AddTool(s, service.Tool{Name: "cached", ReadOnly: true, Cache: time.Hour}, said)
	service.AddTool(s, service.Tool{Name: "forward", CallsTools: true}, func(ctx context.Context, c *service.Call, in struct {
		Name string         `json:"name"`
		Args map[string]any `json:"args"`
	}) (*service.Result, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: in.Name, Arguments: in.Args})
		if err != nil {
			return nil, err
		}
		return &service.Result{Content: []mcp.Content{mcp.Text(r.Text())}}, nil
	})
	return s
}

// serve starts another edge, which knows of some services.
func (w *world) serve(t testing.TB, audit edge.Audit, services ...string) (n node) {
	t.Helper()
	e := edges.Serve(t, w.nats, edge.Config{Authenticator: w.tokens, Access: w.access, Audit: audit}, services, rpc.WithUnaryInterceptor(untilHeard))
	return node{e.Host, e.Gateway}
}

// untilHeard makes calls of gRPC until NATS was heard meanwhile; the deadline of a call ends it.
func untilHeard(ctx context.Context, method string, req, reply any, conn *rpc.ClientConn, invoke rpc.UnaryInvoker, opts ...rpc.CallOption) error {
	for {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if err == nil || !bustest.StoodStill(err.Error()) {
			return err
		}
	}
}

// heard repeats a request until NATS was heard meanwhile, for ways in that do not repeat it
// themselves.
func heard(t *testing.T, request func() answer) (a answer) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		a = request()
		return !bustest.StoodStill(a.body)
	})
	return a
}

// answer is the outcome of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// says reports whether the body contains a text.
func (a answer) says(text string) bool { return strings.Contains(a.body, text) }

// member is a member of the body, "a.b" for a member of a member; empty if it is missing.
func (a answer) member(path string) string {
	v := jsontext.Value(a.body)
	for name := range strings.SplitSeq(path, ".") {
		var all map[string]jsontext.Value
		_ = json.Unmarshal(v, &all)
		v = all[name]
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// do makes a request of HTTP of the first edge as somebody, by their token.
func (w *world) do(t *testing.T, token, method, path, body string, headers ...string) answer {
	t.Helper()
	return heard(t, func() answer { return read(t, w.open(t, 0, token, method, path, body, headers...)) })
}

// read reads a response to its end.
func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// open makes a request of an edge; the answer may be a stream. Close its body.
func (w *world) open(t *testing.T, at int, token, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.edges[at].host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// tool calls a tool over REST.
func (w *world) tool(t *testing.T, token, name, arguments string, headers ...string) answer {
	t.Helper()
	return w.do(t, token, "POST", "/tools/"+name, arguments, headers...)
}

// must is tool for calls that have to work.
func (w *world) must(t *testing.T, token, name, arguments string) answer {
	t.Helper()
	a := w.tool(t, token, name, arguments)
	if a.status != http.StatusOK || a.member("is_error") == "true" {
		t.Fatalf("%s calls %s %s: %d %s", token, name, arguments, a.status, a.body)
	}
	return a
}

// meta is the _meta of requests of 2026-07-28, of a client that can do everything.
const meta = `"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientCapabilities +
	`":{"elicitation":{},"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`

// modern makes a request of 2026-07-28; name is the value of its header Mcp-Name.
func (w *world) modern(t *testing.T, token, method, name, params string) answer {
	t.Helper()
	if params != "" {
		params += ","
	}
	return w.modernAt(t, token, "", method, name, params)
}

// legacy is a request of an earlier version.
func legacy(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// md are the metadata of gRPC that show a token.
func md(t *testing.T, token string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	t.Cleanup(cancel)
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// asUnknown requires that a stranger gets the same answer for an existing thing as for one that
// never existed. made and never are the two answers; a stranger without credentials is told nothing
// about either.
func asUnknown(t *testing.T, what, token string, made, never string, try func(id string) answer) {
	t.Helper()
	is, isNot := heard(t, func() answer { return try(made) }), heard(t, func() answer { return try(never) })
	switch {
	case token == nobody && (is.status != http.StatusUnauthorized || isNot.status != http.StatusUnauthorized):
		t.Errorf("%s by nobody: %d %s", what, is.status, is.body)
	case is.status != isNot.status || strings.ReplaceAll(is.body, made, never) != isNot.body:
		t.Errorf("%s by %q: of what is there %d %s\nof what never was %d %s", what, token, is.status, is.body, isNot.status, isNot.body)
	case is.status < 300 && token != nobody && !strings.Contains(is.body, "nknown"):
		t.Errorf("%s by %q: %d %s", what, token, is.status, is.body)
	}
}
