package tenants

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/access"
)

// one has one tool, boss everything.
const (
	one  = "acme:one"
	boss = "acme:boss"
)

const onePolicy = `
roles: {one: {allow: [tools/look_here]}, all: {allow: ["*"]}}
principals: {one: {tenant: acme, roles: [one]}, boss: {tenant: acme, roles: [all]}}
anonymous: []
`

// secret is in all that one may not read.
const secret = "SECRETMARK"

// hidden matches names that a caller may not use.
var hidden = regexp.MustCompile(`(?i)hidden[_:/]+[a-z]+[_/]*[0-9]*|(?:create|read|update|delete)_resource`)

// vault is a service with much that is hidden, and one tool that is not. It counts
// what of the two ran.
type vault struct{ looked, opened atomic.Int64 }

func (v *vault) service() *service.Service {
	s := service.New("vault", service.WithVersion("1.0.0"), service.WithDescription(secret))
	tool := func(name string, ran *atomic.Int64, text string, more service.Tool) {
		more.Name, more.Description = name, text
		service.AddTool(s, more, func(context.Context, *service.Call, map[string]any) (*service.Result, error) {
			ran.Add(1)
			return &service.Result{Content: []mcp.Content{mcp.Text(text)}}, nil
		})
	}
	tool("look_here", &v.looked, "seen", service.Tool{ReadOnly: true})
	for _, name := range []string{"create_resource", "read_resource", "update_resource", "delete_resource"} {
		tool(name, &v.opened, secret, service.Tool{})
	}
	read := func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		v.opened.Add(1)
		return []mcp.ResourceContents{{Text: secret}}, nil
	}
	complete := map[string]service.CompleteFunc{"x": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
		v.opened.Add(1)
		return []string{secret}, nil
	}}
	render := func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
		v.opened.Add(1)
		return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(secret)}}, nil
	}
	about := func(name string) mcp.Prompt {
		return mcp.Prompt{Name: name, Description: secret, Arguments: []mcp.PromptArgument{{Name: "x"}}}
	}
	for i := range 3 {
		tool(fmt.Sprintf("hidden_tool_%d", i), &v.opened, secret, service.Tool{ReadOnly: i == 0, RequiresUserApproval: i == 2, Cache: map[bool]time.Duration{true: time.Hour}[i == 0]})
		s.AddResource(mcp.Resource{URI: fmt.Sprintf("hidden://resource/%d", i), Name: secret}, read)
		s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: fmt.Sprintf("hidden://template/%d/{x}", i), Name: secret}, read, complete)
		s.AddPrompt(about(fmt.Sprintf("hidden_prompt_%d", i)), render, complete)
	}
	service.AddTool(s, service.Tool{Name: "hidden_task_1", Description: secret, Task: service.TaskRequired}, func(context.Context, *service.Call, map[string]any) (*service.Result, error) {
		v.opened.Add(1)
		return &service.Result{Content: []mcp.Content{mcp.Text(secret)}}, nil
	})
	s.ListResources(func(context.Context, *service.Call, string, int) (service.ResourcePage, error) {
		return service.ResourcePage{Resources: []mcp.Resource{{URI: "hidden://listed/1", Name: secret}}}, nil
	})
	s.AddResourcePrefix("hidden://", read)
	s.ListPrompts(func(context.Context, *service.Call, string, int) (service.PromptPage, error) {
		return service.PromptPage{Prompts: []mcp.Prompt{about("hidden_listed_1")}}, nil
	}, func(_ context.Context, _ *service.Call, name string) (*service.ServedPrompt, error) {
		v.opened.Add(1)
		return &service.ServedPrompt{Prompt: about(name), Render: render, Complete: complete}, nil
	})
	return s
}

// request is one that is made at random.
type request struct {
	method, path, body string
	headers            []string
	// names are the names that it contains.
	names string
}

// knows reports whether a text is in the request.
func (r *request) knows(text string) bool {
	text = strings.ToLower(text)
	for _, in := range []string{r.body, r.path, r.names} {
		in = strings.NewReplacer(`\u0069`, "i", `\u200b`, "\u200b").Replace(in)
		plain, _ := url.QueryUnescape(in)
		if strings.Contains(strings.ToLower(in), text) || strings.Contains(strings.ToLower(plain), text) {
			return true
		}
	}
	return false
}

// dice make requests.
type dice struct{ *rand.Rand }

func pick[T any](d dice, all ...T) T { return all[d.IntN(len(all))] }

// name is one of something, or almost one.
func (d dice) name() string {
	n := d.IntN(3)
	name := pick(d, "look_here", "look_here", "create_resource", "read_resource", "update_resource", "delete_resource", "hidden_task_1", "hidden_listed_1",
		fmt.Sprintf("hidden_tool_%d", n), fmt.Sprintf("hidden_tool_%d", n), fmt.Sprintf("hidden_prompt_%d", n), fmt.Sprintf("hidden://resource/%d", n),
		fmt.Sprintf("hidden://template/%d/a", n), fmt.Sprintf("hidden://template/%d/{x}", n), "hidden://listed/1", "hidden://any")
	switch d.IntN(12) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return name + pick(d, " ", "\\u0000", "/", "?", "#", "*", "\\n", "%00", ".")
	case 2:
		return pick(d, " ", "./", "../", "tools/", "*", "look_here/../") + name
	case 3:
		return pick(d, "*", "", "tools/*", "vault", "busbar/check", "hidden_*")
	case 4:
		return strings.Replace(name, "hidden", pick(d, "h\\u0069dden", "hidden\\u200b", "HIDDEN", "hi%64den"), 1)
	}
	return name
}

// message is one of MCP.
func (d dice) message(r *request) string {
	name := d.name()
	r.names += " " + name
	q := `"` + name + `"`
	method, params := pick(d, "tools/call", "tools/call", "tools/call", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
		"completion/complete", "completion/complete", "skills/list", "skills/get", "resources/directory/read", "server/discover", "tasks/get", "tasks/cancel", "tasks/update",
		"resources/subscribe", "resources/unsubscribe", "logging/setLevel", "ping", "sampling/createMessage", "busbar/audit", "initialize", "notifications/cancelled"), ""
	if d.IntN(2) == 0 { // one that fits the name
		switch {
		case strings.Contains(name, "://"):
			method = pick(d, "resources/read", "completion/complete", "resources/subscribe")
		case strings.Contains(name, "prompt"), strings.Contains(name, "listed"):
			method = pick(d, "prompts/get", "completion/complete")
		default:
			method = "tools/call"
		}
	}
	switch method {
	case "tools/call", "prompts/get":
		params = `"name":` + q + `,"arguments":{` + pick(d, "", `"x":1`, `"x":"y"`) + `}`
	case "resources/read", "skills/get", "resources/directory/read", "resources/subscribe", "resources/unsubscribe":
		params = `"uri":` + q
	case "completion/complete":
		params = `"ref":` + pick(d, `{"type":"ref/prompt","name":`+q+`}`, `{"type":"ref/resource","uri":`+q+`}`) + `,"argument":{"name":"x","value":""}`
	case "tasks/get", "tasks/cancel", "tasks/update":
		params = `"taskId":` + q + `,"inputResponses":{}`
	case "logging/setLevel":
		params = `"level":"debug"`
	case "initialize":
		params = `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	default:
		params = pick(d, "", `"cursor":`+q, `"uri":`+q)
	}
	if d.IntN(2) == 0 {
		if params != "" {
			params += ","
		}
		params += meta
		r.headers = []string{mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", method, "Mcp-Name", strings.Trim(name, " \\")}
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
}

// web makes a request of HTTP.
func (d dice) web() *request {
	name := d.name()
	r := &request{method: "POST", names: name}
	in := url.PathEscape(name)
	if d.IntN(4) == 0 {
		in = strings.ReplaceAll(name, " ", "%20")
	}
	body := pick(d, `{}`, `{"x":1}`, `{"key":"k"}`)
	switch d.IntN(6) {
	case 0:
		r.path, r.body = "/mcp", d.message(r)
		if d.IntN(8) == 0 {
			r.body = "[" + r.body + "," + d.message(r) + "]"
		}
	case 1:
		r.method, r.path = "GET", pick(d, "/tools", "/prompts", "/resources", "/approvals", "/openapi.json", "/llms.txt", "/elicitations", "/docs", "/tools/"+in, "/prompts/"+in, "/resources/"+in,
			"/resources?uri="+url.QueryEscape(name), "/approvals/"+in, "/audit/list", "/metrics", "/tools?cursor="+url.QueryEscape(name), "/readyz", "/.well-known/oauth-protected-resource")
	case 2:
		r.path, r.body = pick(d, "/tools/"+in, "/prompts/"+in, "/approvals/"+in), pick(d, body, `{"approve":true}`)
		if d.IntN(4) == 0 {
			r.headers = []string{"Idempotency-Key", "k" + strconv.Itoa(d.IntN(100))}
		}
	case 3:
		r.path = pick(d, "/v1", "/tools:batch", "/sampling", "/resources")
		second := d.name()
		r.names += " " + second
		r.body = pick(d, `{"version":"1.0","action":{"name":"`+name+`","parameters":`+body+`}}`,
			`[{"version":"1.0","action":{"name":"`+name+`"}},{"version":"1.0","action":{"name":"`+second+`"}}]`,
			`{"calls":[{"name":"`+name+`","parameters":`+body+`},{"name":"`+second+`"}]}`,
			`{"uri":"`+name+`","text":"x"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"max_tokens":5}`)
	case 4:
		r.method, r.path, r.body = pick(d, "PUT", "PATCH", "DELETE"), "/resources/"+in, pick(d, `{"text":"x"}`, "")
	default:
		q := strconv.Quote(name)
		r.path = "/graphql"
		r.body = `{"query":` + strconv.Quote(pick(d, `{getTools{name description}}`, `{getPrompts{name description}}`, `{getResources{uri name}}`, `{getTool(name:`+q+`){name description}}`,
			`{getPrompt(name:`+q+`){name description}}`, `{getResource(uri:`+q+`){uri contents{text}}}`, `{__schema{types{name}}}`,
			`mutation{executeTool(input:{name:`+q+`}){content{text}}}`, `mutation{executePrompt(input:{name:`+q+`}){messages{content{text}}}}`,
			`mutation{executeTools(inputs:[{name:`+q+`},{name:"hidden_tool_2"}]){is_error}}`, `mutation{deleteResource(uri:`+q+`)}`)) + `}`
		r.names += " hidden_tool_2"
	}
	if d.IntN(3) == 0 {
		d.mutate(r)
	}
	return r
}

// mutate changes what is sent in a few places.
func (d dice) mutate(r *request) {
	b := []byte(r.body)
	for range 1 + d.IntN(3) {
		at := d.IntN(len(b) + 1)
		switch d.IntN(5) {
		case 0:
			if at < len(b) {
				b[at] ^= 1 << d.IntN(8)
			}
		case 1:
			b = append(b[:at:at], b[min(len(b), at+1+d.IntN(4)):]...)
		case 2:
			b = append(b[:at:at], append([]byte(pick(d, `"`, `{`, `}`, `,"name":"hidden_tool_1"`, `\u0000`, "\xff", `[`, `null`)), b[at:]...)...)
		case 3:
			end := min(len(b), at+d.IntN(40))
			b = append(b[:end:end], b[at:]...)
		case 4:
			r.method = pick(d, r.method, "GET", "PUT", "DELETE", "OPTIONS", "HEAD")
		}
	}
	r.names += " hidden_tool_1"
	r.body = string(b)
}

// wanderer makes requests as one.
type wanderer struct {
	dice
	t      *testing.T
	w      *world
	socket map[string]*websocket.Conn
	// before has the texts of the last requests over a socket, which are answered late.
	before map[string][]string
}

// check requires that an answer says nothing that its request did not.
func (x *wanderer) check(r *request, said string) {
	if strings.Contains(strings.ToUpper(said), secret) {
		x.t.Errorf("%s %s %v %s\nis told a secret: %.500s", r.method, r.path, r.headers, r.body, said)
	}
	for _, name := range hidden.FindAllString(said, -1) {
		if !r.knows(name) {
			x.t.Errorf("%s %s %v %s\nis told of %s: %.1000s", r.method, r.path, r.headers, r.body, name, said)
		}
	}
}

func (x *wanderer) step(ctx context.Context) error {
	switch x.IntN(10) {
	case 0:
		return x.rpc()
	case 1:
		return x.overSocket(ctx, "", func(r *request) string {
			name := x.name()
			r.names = name
			return pick(x.dice, `{"type":"tool_request","id":1,"data":{"name":"`+name+`","parameters":{}}}`, `{"type":"prompt_request","id":1,"data":{"name":"`+name+`","arguments":{}}}`,
				`{"type":"resource_request","id":1,"data":{"uri":"`+name+`"}}`, `{"type":"batch_request","id":1,"data":{"calls":[{"name":"`+name+`"}]}}`,
				`{"type":"approval_response","id":1,"data":{"approval":"`+name+`","approve":true}}`)
		}, `{"type":"tool_request","id":"end%d","data":{"name":"look_here","parameters":{}}}`)
	case 2:
		return x.overSocket(ctx, "mcp", func(r *request) string { return x.message(r) }, `{"jsonrpc":"2.0","id":"end%d","method":"ping"}`)
	}
	r := x.web()
	in, err := http.NewRequestWithContext(ctx, r.method, "http://"+x.w.edges[0].host+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil // not a request of HTTP
	}
	in.Header.Set("Content-Type", "application/json")
	in.Header.Set("Accept", pick(x.dice, "application/json, text/event-stream", "application/json, text/event-stream", "application/json"))
	if x.IntN(50) != 0 {
		in.Header.Set("Authorization", "Bearer "+one)
	}
	for i := 0; i+1 < len(r.headers); i += 2 {
		in.Header.Set(r.headers[i], r.headers[i+1])
	}
	resp, err := x.w.client.Do(in)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return nil // a header that cannot be sent
	}
	defer func() { _ = resp.Body.Close() }()
	var said bytes.Buffer
	_ = resp.Header.Write(&said)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && r.method == "GET" {
		return nil // it goes on
	}
	if _, err := io.Copy(&said, resp.Body); err != nil {
		return err
	}
	if r.path != "/docs" { // which is the same for everybody
		x.check(r, said.String())
	}
	return nil
}

// overSocket sends a message and one that is answered, over a connection that is kept.
func (x *wanderer) overSocket(ctx context.Context, protocol string, make func(*request) string, last string) error {
	conn := x.socket[protocol]
	if conn == nil {
		o := &websocket.DialOptions{HTTPClient: x.w.client, HTTPHeader: http.Header{"Authorization": {"Bearer " + one}}}
		if protocol != "" {
			o.Subprotocols = []string{protocol}
		}
		var err error
		if conn, _, err = websocket.Dial(ctx, "ws://"+x.w.edges[0].host+"/ws", o); err != nil {
			return err
		}
		conn.SetReadLimit(-1)
		x.socket[protocol] = conn
		if protocol != "" {
			if err := conn.Write(ctx, websocket.MessageText, []byte(initialize)); err != nil {
				return err
			}
		}
	}
	r := &request{method: "WebSocket", path: protocol}
	r.body = make(r)
	if x.IntN(3) == 0 {
		x.mutate(r)
	}
	before := x.before[protocol]
	x.before[protocol] = append(before[max(0, len(before)-11):], r.body+r.names)
	r.names += strings.Join(before, " ")
	n := x.Int64()
	if conn.Write(ctx, websocket.MessageText, []byte(r.body)) != nil || conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, last, n)) != nil {
		delete(x.socket, protocol) // what came before has ended it
		return nil
	}
	for {
		_, said, err := conn.Read(ctx)
		if err != nil {
			delete(x.socket, protocol)
			if ctx.Err() != nil {
				return err
			}
			return nil
		}
		x.check(r, string(said))
		if bytes.Contains(said, fmt.Appendf(nil, "end%d", n)) {
			return nil
		}
	}
}

// rpc makes a call of gRPC.
func (x *wanderer) rpc() error {
	g, name := x.w.edges[0].grpc, x.name()
	r := &request{method: "gRPC", names: name}
	ctx, cancel := context.WithTimeout(md(x.t, one), bustest.Patience)
	defer cancel()
	var said any
	var err error
	switch x.IntN(8) {
	case 0:
		said, err = g.ListTools(ctx, &gatewayv1.ListToolsRequest{Cursor: pick(x.dice, "", name)})
	case 1:
		var all *gatewayv1.ListPromptsResponse
		all, err = g.ListPrompts(ctx, &gatewayv1.ListPromptsRequest{})
		said = string(bytes.Join(all.GetPrompts(), nil))
	case 2:
		var all *gatewayv1.ListResourcesResponse
		all, err = g.ListResources(ctx, &gatewayv1.ListResourcesRequest{})
		said = string(bytes.Join(all.GetResources(), nil))
	case 3:
		said, err = g.ReadResource(ctx, &gatewayv1.ReadResourceRequest{Uri: name})
	case 4:
		said, err = g.GetPrompt(ctx, &gatewayv1.GetPromptRequest{Name: name})
	case 5:
		said, err = g.Approve(ctx, &gatewayv1.ApproveRequest{Approval: name, Approve: true})
	default:
		var s interface {
			Recv() (*gatewayv1.CallToolResponse, error)
		}
		if s, err = g.CallTool(ctx, &gatewayv1.CallToolRequest{Name: name}); err == nil {
			for err == nil {
				var m *gatewayv1.CallToolResponse
				m, err = s.Recv()
				said = fmt.Sprint(said, m)
			}
		}
	}
	x.check(r, fmt.Sprint(said, err))
	return nil
}

// A principal with one tool makes requests of all kinds at random, through all doors:
// nothing but that tool runs, and nothing tells it of anything else. Of more requests
// than a test run has time for, BUSBAR_RANDOM_REQUESTS says how many;
// BUSBAR_RANDOM_SEED makes the same ones again.
func TestOneTool(t *testing.T) {
	t.Parallel()
	requests, seed := int64(1000), rand.Uint64()
	if n, err := strconv.ParseInt(os.Getenv("BUSBAR_RANDOM_REQUESTS"), 10, 64); err == nil {
		requests = n
	}
	if n, err := strconv.ParseUint(os.Getenv("BUSBAR_RANDOM_SEED"), 10, 64); err == nil {
		seed = n
	}
	path := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(path, []byte(onePolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := access.Open(path, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	w := &world{nats: bustest.Server(t), tokens: &tokens{revoked: map[string]bool{}}, access: live, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	t.Cleanup(w.client.CloseIdleConnections)
	v := &vault{}
	servicetest.Join(t, bustest.Connect(t, w.nats), v.service())
	w.edges[0] = w.serve(t, edge.Audit{Off: true}, "vault")
	for name, want := range map[string]int64{"look_here": 0, "hidden_tool_1": 1} {
		if a := w.must(t, boss, name, `{}`); v.opened.Swap(0) != want {
			t.Fatalf("%s is not what the test takes it for: %s", name, a.body)
		}
	}
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() {
			x := &wanderer{dice{rand.New(rand.NewPCG(seed, i))}, t, w, map[string]*websocket.Conn{}, map[string][]string{}}
			defer func() {
				for _, conn := range x.socket {
					_ = conn.CloseNow()
				}
			}()
			for n := made.Add(1); n <= requests && !t.Failed() && v.opened.Load() == 0; n = made.Add(1) {
				if n%100_000 == 0 {
					t.Logf("%d requests", n)
				}
				if err := x.step(t.Context()); err != nil {
					t.Errorf("request %d: %v", made.Load(), err)
				}
			}
		})
	}
	all.Wait()
	if n := v.opened.Load(); n != 0 {
		t.Errorf("%d times something else ran", n)
	}
	if v.looked.Load() < min(made.Load(), requests)/200 {
		t.Errorf("of %d requests %d reached its tool", made.Load(), v.looked.Load())
	}
	t.Logf("seed %d: %d requests, %d of them ran the one tool", seed, min(made.Load(), requests), v.looked.Load())
}
