package sse_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

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

// Whichever edge a message is posted to, its answer comes on the stream.
func TestConversation(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.open(t, nil)
	c.initialize(mcp.V20241105)
	if m := c.ask(edgetest.Legacy("1", "ping", "")); string(m.Result) != "{}" {
		t.Errorf("ping: %+v", m)
	}
	c.lives()
	t.Run("lists", func(t *testing.T) {
		for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList} {
			if m := c.ask(edgetest.Legacy("1", method, "")); m.Error != nil || m.Field("ttlMs") != "" {
				t.Errorf("%s: %+v", method, m)
			}
		}
	})
	t.Run("progress and logs", func(t *testing.T) {
		c.send(edgetest.Legacy("1", mcp.MethodToolsCall, `"name":"progress","_meta":{"progressToken":"t"}`))
		for _, want := range []string{mcp.NotifyProgress, mcp.NotifyProgress, mcp.NotifyMessage} {
			if m := c.await(); m.Method != want || want == mcp.NotifyProgress && m.Param("progressToken") != `"t"` {
				t.Errorf("got %+v, want %s", m, want)
			}
		}
		if m := c.await(); m.Text() != "done" {
			t.Errorf("answer %+v", m)
		}
	})
	t.Run("the level of logs", func(t *testing.T) {
		for level, want := range map[string]int{"debug": 2, "info": 1, "emergency": 0} {
			if m := c.ask(edgetest.Legacy("1", mcp.MethodSetLevel, `"level":"`+level+`"`)); m.Error != nil {
				t.Fatal(m.Error)
			}
			c.send(edgetest.LegacyCall("2", "progress", "{}"))
			for range want {
				if m := c.await(); m.Method != mcp.NotifyMessage {
					t.Errorf("%s: %+v", level, m)
				}
			}
			if m := c.await(); m.Text() != "done" {
				t.Errorf("%s: %+v", level, m)
			}
		}
	})
	t.Run("elicitation, sampling and roots", func(t *testing.T) {
		c.send(edgetest.LegacyCall("7", "all", "{}"))
		answers := map[string]string{
			mcp.MethodElicit: `{"action":"accept","content":{}}`,
			mcp.MethodSample: `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
			mcp.MethodRoots:  `{"roots":[{"uri":"file:///home"}]}`,
		}
		for range 3 {
			q := c.await()
			answer := answers[q.Method]
			if answer == "" || q.ID == nil {
				t.Fatalf("asked %+v", q)
			}
			delete(answers, q.Method)
			c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + answer + `}`)
		}
		if m := c.await(); m.Text() != "accept hello file:///home" || string(m.ID) != "7" {
			t.Errorf("answer %+v %+v", m, m.Error)
		}
	})
	t.Run("a client that refuses", func(t *testing.T) {
		q := c.ask(edgetest.LegacyCall("8", "ask", "{}"))
		c.lives() // a question does not block others
		c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"error":{"code":-1,"message":"not now"}}`)
		if m := c.await(); m.Code() != mcp.CodeCancelled || !strings.Contains(m.Error.Message, "not now") {
			t.Errorf("answer %+v", m)
		}
	})
	t.Run("cancellation", func(t *testing.T) {
		for i := range w.edges { // from each
			id := fmt.Sprint(90 + i) // the edge may hold the first one a moment longer than its service
			c.send(edgetest.LegacyCall(id, "hold", "{}"))
			receive(t, "the call starts", w.svc.Started)
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			receive(t, "the handler's context ends", w.svc.Ended)
			c.posts++ // the other way round
		}
		c.lives() // and no answer to the cancelled ones came before
	})
	t.Run("an id twice", func(t *testing.T) {
		c.send(edgetest.LegacyCall("1", "hold", "{}"))
		receive(t, "the call starts", w.svc.Started)
		if m := c.ask(edgetest.LegacyCall("1", "safe", "{}")); m.Code() != mcp.CodeInvalidRequest {
			t.Errorf("answer %+v", m)
		}
		w.svc.Release <- struct{}{}
		if m := c.await(); m.Text() != "released" {
			t.Errorf("answer %+v", m)
		}
	})
	t.Run("updates of resources", func(t *testing.T) {
		const uri = "note:///one"
		if m := c.ask(edgetest.Legacy("1", mcp.MethodSubscribe, `"uri":"`+uri+`"`)); m.Error != nil {
			t.Fatalf("%+v", m.Error)
		}
		w.svc.ResourceUpdated("note:///by/7")
		w.svc.ResourceUpdated(uri)
		if m := c.await(); m.Method != mcp.NotifyResourceUpdated || string(m.Params) != `{"uri":"`+uri+`"}` {
			t.Errorf("heard %+v", m)
		}
		if m := c.ask(edgetest.Legacy("1", mcp.MethodUnsubscribe, `"uri":"`+uri+`"`)); m.Error != nil {
			t.Fatalf("%+v", m.Error)
		}
		w.svc.ResourceUpdated(uri)
		c.lives()
	})
	t.Run("changes of lists", func(t *testing.T) {
		next := service.New("next", service.WithLogger(bustest.Logger(t)))
		next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
		stop := edgetest.Serve(t, bustest.Connect(t, w.bus), next)
		if m := c.await(); m.Method != mcp.NotifyPromptsChanged || m.Params != nil {
			t.Errorf("heard %+v", m)
		}
		c.lives()
		stop()
		if m := c.await(); m.Method != mcp.NotifyPromptsChanged {
			t.Errorf("heard %+v", m)
		}
	})
	t.Run("a large result", func(t *testing.T) {
		text := strings.Repeat("x", 400<<10)
		if m := c.ask(edgetest.LegacyCall("1", "echo", `{"a":"`+text+`"}`)); m.Text() != `{"a":"`+text+`"}` {
			t.Errorf("came with %d bytes", len(m.Text()))
		}
	})
}

// Messages posted one after the other are handled in that order: each cancellation finds
// the request before it.
func TestOrderOfPosts(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.open(t, nil)
	c.initialize(mcp.V20241105)
	for i := range 50 {
		id := fmt.Sprint(100 + i)
		c.send(edgetest.LegacyCall(id, "hold", "{}"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	}
	c.lives()
	bustest.Eventually(t, "no call is held", func() bool { return len(w.svc.Started) == len(w.svc.Ended) })
}

func TestVersions(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, version := range []string{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := w.open(t, nil)
			c.initialize(version)
			// Which of the two it is depends on the version.
			m := c.ask(edgetest.LegacyCall("1", "strict", `{"text":1}`))
			if asResult := m.Field("isError") == "true"; asResult != (version >= mcp.V20251125) {
				t.Errorf("answer %+v", m)
			}
			c.send("[" + edgetest.LegacyCall("1", "echo", "{}") + "," + edgetest.Legacy("2", "ping", "") + "]")
			batch := c.data()
			if isBatch := strings.HasPrefix(batch, "["); isBatch != (version == mcp.V20250326) {
				t.Errorf("a batch is answered with %s", batch)
			}
			c.lives()
		})
	}
	t.Run("one that is not known", func(t *testing.T) {
		t.Parallel()
		c := w.open(t, nil)
		for _, version := range []string{"1900-01-01", mcp.Modern} {
			if m := c.ask(edgetest.Initialize(version)); m.Field("protocolVersion") != `"`+mcp.LegacyLatest+`"` {
				t.Errorf("%s: %+v", version, m)
			}
		}
	})
	t.Run("2026-07-28 never had this transport", func(t *testing.T) {
		t.Parallel()
		c := w.open(t, nil)
		for _, message := range []string{edgetest.Call("1", "echo", "{}"), edgetest.Request("1", mcp.MethodDiscover, ""), edgetest.Request("1", mcp.MethodListen, `"notifications":{}`), edgetest.Legacy("1", mcp.MethodDiscover, "")} {
			m := c.ask(message)
			if m.Code() != mcp.CodeUnsupportedVersion || string(m.ID) != "1" {
				t.Fatalf("answer %+v", m)
			}
			if got := strings.Join(m.Error.Data.Supported, " "); got != "2025-11-25 2025-06-18 2025-03-26 2024-11-05" || m.Error.Data.Requested != mcp.Modern {
				t.Errorf("supported: %s; requested: %s", got, m.Error.Data.Requested)
			}
		}
		c.lives()
	})
}

// A malformed message is answered on the stream and does no other harm.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.open(t, nil)
	c.initialize(mcp.V20241105)
	call := edgetest.LegacyCall("1", "safe", "{}")
	const parse, invalid, params = mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeInvalidParams
	for name, l := range map[string]struct {
		body string
		code int
	}{
		"nothing":            {"", parse},
		"not JSON":           {"hello", parse},
		"half":               {call[:60], parse},
		"two messages":       {call + call, parse},
		"member twice":       {strings.Replace(call, `"name":`, `"name":"echo","name":`, 1), parse},
		"bad UTF-8":          {strings.Replace(call, `{}`, "{\"a\":\"\xff\"}", 1), parse},
		"deep":               {strings.Repeat("[", 100_000), invalid},
		"batch":              {"[" + call + "]", invalid},
		"null":               {"null", invalid},
		"no method":          {`{"jsonrpc":"2.0","id":1}`, invalid},
		"id 1.5":             {edgetest.LegacyCall("1.5", "safe", "{}"), invalid},
		"params a list":      {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, params},
		"unknown method":     {edgetest.Legacy("1", "nothing/here", ""), mcp.CodeMethodNotFound},
		"unknown tool":       {edgetest.LegacyCall("1", "nothing", "{}"), params},
		"initialize nothing": {edgetest.Legacy("1", mcp.MethodInitialize, ""), params},
	} {
		t.Run(name, func(t *testing.T) {
			if m := c.ask(l.body); m.Code() != l.code || m.Error.Data.Executed != "no" {
				t.Fatalf("answer %+v, %+v", m, m.Error)
			}
			c.lives()
		})
	}
	t.Run("what needs no answer", func(t *testing.T) {
		c.send(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":"nobody.asked","result":{}}`, "{\"jsonrpc\":\"2.0\",\r\n\"method\":\"notifications/x\"}")
		c.lives()
	})
}

// Each request of a stream has the budget of one request.
func TestResultsOfRequestsCountByThemselves(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.bytes = 1 << 20 // a quarter of it for one request
	w.edges = []place{w.join(t)}
	c := w.open(t, nil)
	c.initialize(mcp.V20241105)
	for range 5 {
		if m := c.ask(edgetest.LegacyCall("1", "echo", `{"a":"`+strings.Repeat("x", 100<<10)+`"}`)); m.Error != nil {
			t.Fatalf("%+v", m.Error)
		}
	}
}
