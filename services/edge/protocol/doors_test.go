package protocol_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// atDoors asks the same at each door. Its world has two edges, which HTTP clients use in
// turn.
func atDoors(t *testing.T, ask func(t *testing.T, w *edgetest.World, c *edgetest.Conversation), change ...func(*edge.Config)) {
	t.Helper()
	t.Parallel()
	for door, open := range edgetest.Doors {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			w := edgetest.StartBus(t, addAsking)
			w.Join(t, change...)
			w.Join(t, change...)
			ask(t, w, open(t, w))
		})
	}
}

// addAsking adds the tool all, which asks for everything that a client can be asked.
func addAsking(s *edgetest.Service) {
	service.AddTool(s.Service, service.Tool{Name: "all"}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		a, err := c.Ask(
			service.Elicit("name", "Who?", map[string]any{"type": "object", "properties": map[string]any{}}),
			service.Sample("model", service.Sampling{Messages: []mcp.PromptMessage{{Role: "user", Content: mcp.Text("hi")}}, MaxTokens: 7}),
			service.Roots("dirs"))
		if err != nil {
			return "", err
		}
		action, err := a.Elicited("name", nil)
		if err != nil {
			return "", err
		}
		said, err := a.Sampled("model")
		if err != nil {
			return "", err
		}
		roots, err := a.Roots("dirs")
		if err != nil {
			return "", err
		}
		return action + " " + said.Text() + " " + roots[0].URI, nil
	})
}

// A client of an earlier version asks for everything on one connection, or in one session,
// and the answers come to it. test/matrix asks the same of a published client.
func TestConversation(t *testing.T) {
	atDoors(t, func(t *testing.T, w *edgetest.World, c *edgetest.Conversation) {
		c.Greet(mcp.V20250618)
		t.Run("progress and logs", func(t *testing.T) {
			c.Send(edgetest.Legacy("1", mcp.MethodToolsCall, `"name":"progress","_meta":{"progressToken":"t"}`))
			for _, want := range []string{mcp.NotifyProgress, mcp.NotifyProgress, mcp.NotifyMessage} {
				if m := c.Await(); m.Method != want || want == mcp.NotifyProgress && m.Param("progressToken") != `"t"` {
					t.Errorf("got %+v, want %s", m, want)
				}
			}
			if m := c.Await(); m.Text() != "done" {
				t.Errorf("answer %+v", m)
			}
		})
		t.Run("elicitation, sampling and roots", func(t *testing.T) {
			c.Send(edgetest.LegacyCall("7", "all", "{}"))
			answers := map[string]string{
				mcp.MethodElicit: `{"action":"accept","content":{}}`,
				mcp.MethodSample: `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
				mcp.MethodRoots:  `{"roots":[{"uri":"file:///home"}]}`,
			}
			for range 3 {
				q := c.Await()
				if answers[q.Method] == "" || q.ID == nil {
					t.Fatalf("asked %+v", q)
				}
				c.Reply(q, `"result":`+answers[q.Method])
				delete(answers, q.Method)
			}
			if m := c.Await(); m.Text() != "accept hello file:///home" || string(m.ID) != "7" {
				t.Errorf("answer %+v %+v", m, m.Error)
			}
		})
		t.Run("state, and a late answer", func(t *testing.T) {
			q := c.Ask(edgetest.LegacyCall("1", "remember", "{}"))
			c.Lives() // a question does not block others
			c.Send(`{"jsonrpc":"2.0","id":"nobody.asked","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			c.Reply(q, `"result":{"action":"accept","content":{}}`)
			if m := c.Await(); m.Text() != "kept secret" || string(m.ID) != "1" {
				t.Errorf("answer %+v", m)
			}
			c.Reply(q, `"result":{"action":"accept"}`)
			c.Lives()
		})
		t.Run("a client that refuses", func(t *testing.T) {
			q := c.Ask(edgetest.LegacyCall("8", "ask", "{}"))
			c.Reply(q, `"error":{"code":-1,"message":"not now"}`)
			if m := c.Await(); m.Code() != mcp.CodeCancelled || !strings.Contains(m.Error.Message, "not now") {
				t.Errorf("answer %+v", m)
			}
		})
		t.Run("cancellation", func(t *testing.T) {
			c.Send(edgetest.LegacyCall("90", "hold", "{}"))
			w.Svc.Running(t)
			c.Send(edgetest.Cancel(`"90"`), edgetest.Cancel("2"), edgetest.Cancel("{}"), `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, edgetest.Cancel("90"))
			w.Svc.Over(t)
			c.Lives() // and no answer to the cancelled one came before
		})
		t.Run("an id twice", func(t *testing.T) {
			if strings.Contains(t.Name(), "/streamable/") {
				return // ids in flight are those at one edge: TestLegacyCancellation of that door
			}
			c.Send(edgetest.LegacyCall("1", "hold", "{}"))
			w.Svc.Running(t)
			if m := c.Ask(edgetest.LegacyCall("1", "safe", "{}")); m.Code() != mcp.CodeInvalidRequest || string(m.ID) != "1" {
				t.Errorf("answer %+v", m)
			}
			edgetest.Send(t, "release", w.Svc.Release)
			if m := c.Await(); m.Text() != "released" {
				t.Errorf("answer %+v", m)
			}
		})
		t.Run("updates of resources", func(t *testing.T) {
			const uri = "note:///one"
			if m := c.Ask(edgetest.Legacy("1", mcp.MethodSubscribe, `"uri":"nothing:///"`)); m.Code() != mcp.CodeLegacyNoResource {
				t.Errorf("of nothing: %+v", m)
			}
			if m := c.Ask(edgetest.Legacy("1", mcp.MethodSubscribe, `"uri":"`+uri+`"`)); m.Error != nil || string(m.Result) != "{}" {
				t.Fatalf("%+v", m.Error)
			}
			// until reads to the answer of a request, and returns what came before.
			until := func(id string) (before []edgetest.Message) {
				for m := c.Await(); string(m.ID) != id; m = c.Await() {
					before = append(before, m)
				}
				return before
			}
			var heard []edgetest.Message
			n := 100
			bustest.Eventually(t, "the edge with the stream has heard of the subscription", func() bool {
				w.Svc.ResourceUpdated("note:///by/7")
				w.Svc.ResourceUpdated(uri)
				n++
				c.Send(edgetest.Legacy(fmt.Sprint(n), "ping", ""))
				heard = until(fmt.Sprint(n))
				return len(heard) > 0
			})
			if m := heard[0]; m.Method != mcp.NotifyResourceUpdated || string(m.Params) != `{"uri":"`+uri+`"}` {
				t.Errorf("heard %+v", m)
			}
			c.Send(edgetest.Legacy("3", mcp.MethodUnsubscribe, `"uri":"`+uri+`"`))
			until("3")
		})
		t.Run("changes of lists", func(t *testing.T) {
			next := service.New("next", service.WithLogger(bustest.Logger(t)))
			next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
			stop := edgetest.Serve(t, bustest.Connect(t, w.Bus), next)
			heard := func() {
				t.Helper()
				m := c.Await()
				for m.Method == mcp.NotifyResourceUpdated { // an update of before
					m = c.Await()
				}
				if m.Method != mcp.NotifyPromptsChanged || m.Params != nil {
					t.Errorf("heard %+v", m)
				}
			}
			heard()
			stop()
			heard()
		})
		t.Run("the last handshake counts", func(t *testing.T) {
			for _, version := range []string{mcp.V20251125, mcp.V20250618} {
				c.Greet(version)
				if m := c.Ask(edgetest.LegacyCall("1", "strict", `{"text":1}`)); (m.Field("isError") == "true") != (version == mcp.V20251125) {
					t.Errorf("%s: %+v", version, m)
				}
			}
		})
	})
}

// question is a request, and what its answer has.
type question struct{ request, want string }

// results are what clients are told, whatever the door.
var results = map[bool]map[string]question{
	true: {
		"a number and a text":         {edgetest.Call("1", "echo", `{"n": 9007199254740993, "s":"ü"}`), `"text":"{\"n\": 9007199254740993, \"s\":\"ü\"}"`},
		"an id with escapes":          {edgetest.Call(`"ä\/"`, "safe", "{}"), `"id":"ä\/"`},
		"discover":                    {edgetest.Request("1", mcp.MethodDiscover, ""), `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`},
		"a prompt":                    {edgetest.Request("1", mcp.MethodPromptsGet, `"name":"greet","arguments":{"who":"Ada"}`), `"messages":[{"role":"user","content":{"type":"text","text":"Hello Ada"}}]`},
		"a resource":                  {edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"note:///by/7"`), `"contents":[{"uri":"note:///by/7","mimeType":"text/plain","text":"it is 7"}]`},
		"a resource is for one":       {edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"note:///by/7"`), `"cacheScope":"private"`},
		"a list is for all":           {edgetest.Request("1", mcp.MethodPromptsList, ""), `"cacheScope":"public"`},
		"completion":                  {edgetest.Request("1", mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}`), `"completion":{"values":["Ada"],"total":1,"hasMore":false}`},
		"templates":                   {edgetest.Request("1", mcp.MethodTemplatesList, ""), `"resourceTemplates":[{"uriTemplate":"note:///by/{id}","name":"by id"}]`},
		"prompts":                     {edgetest.Request("1", mcp.MethodPromptsList, ""), `"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]`},
		"a failing tool":              {edgetest.Call("1", "fails", "{}"), `"content":[{"type":"text","text":"no such city"}],"isError":true`},
		"input required":              {edgetest.Call("1", "ask", "{}"), `"resultType":"input_required"`},
		"input answered":              {edgetest.Request("1", mcp.MethodToolsCall, `"name":"ask","inputResponses":{"name":{"action":"decline"}}`), `"text":"decline"`},
		"arguments amiss":             {edgetest.Call("1", "strict", `{"text":1}`), `"isError":true`},
		"a result that is a number":   {edgetest.Call("1", "number", `{"n":1.5}`), `"structuredContent":1.5`},
		"an output that is a number":  {edgetest.Request("1", mcp.MethodToolsList, ""), `"outputSchema":{"type":"number"}`},
		"_meta of a service":          {strings.Replace(edgetest.Call("1", "echo", "{}"), `"_meta":{`, `"_meta":{"example.com/a\"b":[1,2],"`+mcp.MetaTraceparent+`":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",`, 1), `"_meta":{"example.com/a\"b":[1,2],"` + mcp.MetaServerInfo + `":`},
		"a defect":                    {edgetest.Call("1", "broken", "{}"), `"code":-32603,"message":"service svc failed`},
		"a panic":                     {edgetest.Call("1", "panics", "{}"), `"executed":"unknown"`},
		"a capability that is needed": {strings.Replace(edgetest.Call("1", "ask", "{}"), `{"elicitation":{}}`, `{}`, 1), `"requiredCapabilities":{"elicitation":{}}`},
	},
	false: {
		"ping":                       {edgetest.Legacy("1", "ping", ""), `"result":{}`},
		"a list":                     {edgetest.Legacy("1", "prompts/list", ""), `"result":{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]}}`},
		"a resource":                 {edgetest.Legacy("1", "resources/read", `"uri":"note:///one"`), `"text":"it is "}]}}`},
		"a level":                    {edgetest.Legacy("1", "logging/setLevel", `"level":"error"`), `"result":{}`},
		"a level, unknown":           {edgetest.Legacy("1", "logging/setLevel", `"level":"loud"`), `"reason":"invalid_params"`},
		"a level, missing":           {edgetest.Legacy("1", "logging/setLevel", ""), `params.level`},
		"an unknown method":          {edgetest.Legacy("1", "tools/destroy", ""), `"code":-32601`},
		"tasks, which are to come":   {edgetest.Legacy("1", mcp.MethodTasksGet, ""), `"reason":"method_not_found"`},
		"an unknown tool":            {edgetest.LegacyCall("1", "nope", "{}"), "Unknown tool: nope"},
		"an unknown resource":        {edgetest.Legacy("1", "resources/read", `"uri":"note:///no"`), `"uri":"note:///no"`},
		"a uri, missing":             {edgetest.Legacy("1", "resources/read", ""), "params.uri"},
		"a name, missing":            {edgetest.Legacy("1", "tools/call", ""), "params.name"},
		"arguments amiss":            {edgetest.LegacyCall("1", "strict", `{"text":1}`), `"parameter":"text","detail":"got number, want string"`},
		"a result that is a number":  {edgetest.LegacyCall("1", "number", `{"n":1.5}`), `"result":{"content":[{"type":"text","text":"1.5"}]}`},
		"initialize nothing":         {edgetest.Legacy("1", mcp.MethodInitialize, ""), `"reason":"invalid_params"`},
		"initialize, a wrong client": {edgetest.Legacy("1", mcp.MethodInitialize, `"protocolVersion":"2025-06-18","clientInfo":{"name":1}`), `"reason":"invalid_params"`},
		"initialize, wrong powers":   {edgetest.Legacy("1", mcp.MethodInitialize, `"protocolVersion":"2025-06-18","capabilities":[]`), `"reason":"invalid_params"`},
	},
}

// malformed are messages of either era that are refused, with the code.
var malformed = map[string]int{
	"hello": mcp.CodeParseError, edgetest.LegacyCall("1", "safe", "{}") + "x": mcp.CodeParseError, "\xef\xbb\xbf" + edgetest.LegacyCall("1", "safe", "{}"): mcp.CodeParseError,
	strings.Replace(edgetest.LegacyCall("1", "safe", "{}"), `"name":`, `"name":"echo","name":`, 1): mcp.CodeParseError,
	edgetest.LegacyCall("1", "safe", "{\"a\":\"\\ud800\"}"):                                        mcp.CodeParseError, strings.Repeat("[", 40): mcp.CodeParseError,
	strings.Repeat("[", 100_000): mcp.CodeInvalidRequest, "null": mcp.CodeInvalidRequest, "[" + edgetest.LegacyCall("1", "safe", "{}") + "]": mcp.CodeInvalidRequest,
	`{"jsonrpc":"2.0","id":1}`: mcp.CodeInvalidRequest, edgetest.LegacyCall("1.5", "safe", "{}"): mcp.CodeInvalidRequest, edgetest.LegacyCall("null", "safe", "{}"): mcp.CodeInvalidRequest,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`: mcp.CodeInvalidParams,
}

// Every door gives the same answers. test/e2e sends many more malformed messages
// (TestHTTPCorpus, TestStdioCorpus), and libs/mcp refuses them.
func TestAnswers(t *testing.T) {
	atDoors(t, func(t *testing.T, w *edgetest.World, c *edgetest.Conversation) {
		for modern, all := range results {
			if sse := strings.HasSuffix(t.Name(), "/sse"); sse && modern {
				continue // it is older than that version
			}
			if !modern {
				c.Greet(mcp.V20250618)
			}
			for name, q := range all {
				c.Send(q.request)
				if got := string(c.Raw()); !strings.Contains(got, q.want) || strings.Contains(got, "secret") {
					t.Errorf("%s, modern: %t: %.1000s; want %s", name, modern, got, q.want)
				}
			}
		}
		before := w.Svc.Calls.Load()
		for message, code := range malformed {
			if m := c.Ask(message); m.Code() != code || m.Error.Data.Executed != "no" {
				t.Errorf("%.100s: %+v, %+v", message, m, m.Error)
			}
		}
		if n := w.Svc.Calls.Load() - before; n != 0 {
			t.Errorf("%d calls ran", n)
		}
		c.Send(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`) // neither gets an answer
		c.Lives()
	})
}

// Each request has the budget of one request, whatever others of its connection took.
func TestResultsOfRequestsCountByThemselves(t *testing.T) {
	atDoors(t, func(t *testing.T, _ *edgetest.World, c *edgetest.Conversation) {
		c.Greet(mcp.V20250618)
		for i := range 5 {
			if m := c.Ask(edgetest.LegacyCall(fmt.Sprint(i+1), "echo", `{"a":"`+strings.Repeat("x", 100<<10)+`"}`)); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
	}, func(cfg *edge.Config) { cfg.ResultBytes = 1 << 20 }) // a quarter of it for one request
}

// Subscriptions of modern clients end with the connection, or when they are cancelled.
func TestListen(t *testing.T) {
	atDoors(t, func(t *testing.T, w *edgetest.World, c *edgetest.Conversation) {
		if strings.HasSuffix(t.Name(), "/sse") {
			if m := c.Ask(edgetest.Listen("1", "{}")); m.Code() != mcp.CodeUnsupportedVersion {
				t.Errorf("it is older than that version: %+v", m)
			}
			return
		}
		ids := []string{"1", `"b"`}
		for _, id := range ids {
			if m := c.Ask(edgetest.Listen(id, `{"promptsListChanged":true}`)); m.Method != mcp.NotifyAcknowledged || m.Param("_meta", mcp.MetaSubscriptionID) != id {
				t.Fatalf("%+v", m)
			}
		}
		next := service.New("next", service.WithLogger(bustest.Logger(t)))
		next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
		edgetest.Serve(t, bustest.Connect(t, w.Bus), next)
		told := map[string]int{}
		for range ids {
			m := c.Await()
			told[m.Method+m.Param("_meta", mcp.MetaSubscriptionID)]++
		}
		for _, e := range w.Edges {
			e.Server().Close()
		}
		for range ids {
			m := c.Await()
			told["end"+string(m.ID)+m.Field("_meta", mcp.MetaSubscriptionID)]++
		}
		for _, id := range ids {
			if told[mcp.NotifyPromptsChanged+id] != 1 || told["end"+id+id] != 1 {
				t.Errorf("told %v", told)
			}
		}
	})
}
