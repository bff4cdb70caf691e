package graphql_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		query     string
		variables map[string]any
		want      string
	}{
		"a tool": {`{ getTool(name: "approved") { name title requires_user_approval input_schema output_schema } }`, nil,
			`{"getTool":{"input_schema":{"properties":{},"type":"object"},"name":"approved","output_schema":null,"requires_user_approval":true,"title":null}}`},
		"a resource": {`{ getResource(uri: "note:///one") { uri name mime_type contents { uri mime_type mimeType text blob } } }`, nil,
			`{"getResource":{"contents":[{"blob":null,"mimeType":"text/plain","mime_type":"text/plain","text":"it is ","uri":"note:///one"}],"mime_type":null,"name":"one","uri":"note:///one"}}`},
		"one that a template knows": {`{ getResource(uri: "note:///by/7") { uri name contents { text } } }`, nil,
			`{"getResource":{"contents":[{"text":"it is 7"}],"name":null,"uri":"note:///by/7"}}`},
		"prompts": {`{ getPrompts { name arguments { name description required } } getPrompt(name: "greet") { name } }`, nil,
			`{"getPrompt":{"name":"greet"},"getPrompts":[{"arguments":[{"description":null,"name":"who","required":true}],"name":"greet"}]}`},
		"a prompt filled in": {`mutation { executePrompt(input: {name: "greet", arguments: {who: "Ada"}}) { description messages { role content { type text } } } }`, nil,
			`{"executePrompt":{"description":null,"messages":[{"content":{"text":"Hello Ada","type":"text"},"role":"user"}]}}`},
		"a tool called with a literal": {`mutation { executeTool(input: {name: "echo", parameters: {a: 1, b: [true, null, "x", 1.5], c: {d: -2}, e: 9007199254740993}}) { content { text } is_error } }`, nil,
			`{"executeTool":{"content":[{"text":"{\"a\":1,\"b\":[true,null,\"x\",1.5],\"c\":{\"d\":-2},\"e\":9007199254740993}"}],"is_error":false}}`},
		"with a variable": {`mutation Call($in: ToolInput!) { executeTool(input: $in) { content { text all } } }`,
			map[string]any{"in": map[string]any{"name": "echo", "parameters": map[string]any{"big": jsontext.Value("12345678901234567890.5"), "n": 7}}},
			`{"executeTool":{"content":[{"all":{"text":"{\"big\":12345678901234567890.5,\"n\":7}","type":"text"},"text":"{\"big\":12345678901234567890.5,\"n\":7}"}]}}`},
		"with a variable in a literal": {`mutation Call($text: JSON) { executeTool(input: {name: "echo", parameters: {text: $text}}) { content { text } } }`,
			map[string]any{"text": "quote \" and \n line"}, `{"executeTool":{"content":[{"text":"{\"text\":\"quote \\\" and \\n line\"}"}]}}`},
		"without parameters": {`mutation { executeTool(input: {name: "echo"}) { content { text } } }`, nil, `{"executeTool":{"content":[{"text":"{}"}]}}`},
		"a structured result": {`mutation { executeTool(input: {name: "number", parameters: {n: 1.5}}) { structured_content } }`, nil,
			`{"executeTool":{"structured_content":1.5}}`},
		"the tool's own failure": {`mutation { executeTool(input: {name: "fails"}) { content { text } is_error } }`, nil,
			`{"executeTool":{"content":[{"text":"no such city"}],"is_error":true}}`},
		"many, each with its slot": {`mutation { executeTools(parallel: 2, inputs: [{name: "safe"}, {name: "nope"}, {name: "fails"}, {name: "safe", parameters: []}]) { content { text } error reason executed next is_error } }`, nil,
			`{"executeTools":[{"content":[{"text":"safe"}],"error":null,"executed":null,"is_error":false,"next":null,"reason":null},` +
				`{"content":null,"error":"Unknown tool: nope","executed":"no","is_error":true,"next":"getTools lists the tools","reason":"unknown_tool"},` +
				`{"content":[{"text":"no such city"}],"error":null,"executed":null,"is_error":true,"next":null,"reason":null},` +
				`{"content":null,"error":"parameters must be an object","executed":"no","is_error":true,"next":"getTool has the input_schema of a tool, getPrompt the arguments of a prompt","reason":"invalid_params"}]}`},
		"fragments and typename": {`query Q { ...F } fragment F on Query { __typename getTool(name: "safe") { name } }`, nil, `{"__typename":"Query","getTool":{"name":"safe"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := w.do(t, c.query, c.variables).data(t); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	t.Run("all tools and resources", func(t *testing.T) {
		t.Parallel()
		got := w.do(t, `{ getTools { name } getResources { uri name } }`, nil).data(t)
		for _, want := range []string{`{"name":"echo"}`, `{"name":"strict"}`, `{"name":"one","uri":"note:///one"}`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
	})
	t.Run("slots are in the order of a thousand inputs", func(t *testing.T) {
		t.Parallel()
		inputs := make([]any, 1000)
		for i := range inputs {
			inputs[i] = map[string]any{"name": "echo", "parameters": map[string]any{"i": i}}
		}
		r := w.do(t, `mutation M($in: [ToolInput!]!) { executeTools(inputs: $in) { content { text } } }`, map[string]any{"in": inputs})
		slots, _ := r.Data["executeTools"].([]any)
		if len(slots) != len(inputs) {
			t.Fatalf("%d slots: %.300s", len(slots), r.body)
		}
		for i, s := range slots {
			if want := fmt.Sprintf("map[content:[map[text:{\"i\":%d}]]]", i); fmt.Sprint(s) != want {
				t.Fatalf("%v, want %s", s, want)
			}
		}
		more := map[string]any{"in": append(inputs, inputs[0])}
		w.do(t, `mutation M($in: [ToolInput!]!) { executeTools(inputs: $in) { content { text } } }`, more).refused(t, 200, "LIMIT_EXCEEDED", "too_large", "no")
	})
	t.Run("given up by its client", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body(t, `mutation { executeTool(input: {name: "hold"}) { is_error } }`, nil)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := w.client.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}()
		edgetest.Receive(t, "the tool runs", w.Svc.Started)
		cancel()
		edgetest.Receive(t, "the tool hears of it", w.Svc.Ended)
		<-ended
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	w := start(t)
	call := func(name, more string) string {
		return `mutation { executeTool(input: {name: "` + name + `"` + more + `}) { is_error } }`
	}
	for name, c := range map[string]struct{ query, code, reason, executed string }{
		"an unknown tool":       {call("nope", ""), "NOT_FOUND", "unknown_tool", "no"},
		"one that is described": {`{ getTool(name: "nope") { name } }`, "NOT_FOUND", "unknown_tool", "no"},
		"an unknown resource":   {`{ getResource(uri: "example://nope") { uri } }`, "NOT_FOUND", "unknown_resource", "no"},
		"an unknown prompt":     {`{ getPrompt(name: "nope") { name } }`, "NOT_FOUND", "unknown_prompt", "no"},
		"bad parameters":        {call("strict", ", parameters: {text: 1}"), "BAD_USER_INPUT", "invalid_params", "no"},
		"parameters of a kind":  {call("strict", ", parameters: 7"), "BAD_USER_INPUT", "invalid_params", "no"},
		"a defect":              {call("panics", ""), "INTERNAL", "internal", "unknown"},
		"a hidden cause":        {call("broken", ""), "INTERNAL", "internal", "unknown"},
		"a lost service":        {call("lost-effect", ""), "TIMEOUT", "peer_lost", "unknown"},
		"a tool that asks":      {call("ask", ""), "INPUT_REQUIRED", "input_required", "no"},
		"one held for approval": {call("approved", ""), "APPROVAL_REQUIRED", "approval_required", "no"},
		"an unknown approval":   {`mutation { approve(id: "AAAAAAAAAAAAAAAAAAAAAAAAAA", approve: true) { is_error } }`, "NOT_FOUND", "unknown_approval", "no"},
		"no tool that creates":  {`mutation { createResource(input: {uri: "example://document1", name: "x", content: "y", mime_type: "text/plain"}) { uri } }`, "UNAVAILABLE", "unavailable", "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if e := w.do(t, c.query, nil).refused(t, http.StatusOK, c.code, c.reason, c.executed); len(e.Path) != 1 {
				t.Errorf("path %v", e.Path)
			}
		})
	}
	t.Run("one field that fails leaves the others", func(t *testing.T) {
		t.Parallel()
		r := w.do(t, `mutation { a: executeTool(input: {name: "nope"}) { is_error } b: executeTool(input: {name: "safe"}) { content { text } } }`, nil)
		r.refused(t, http.StatusOK, "NOT_FOUND", "unknown_tool", "no")
		if fmt.Sprint(r.Data) != "map[a:<nil> b:map[content:[map[text:safe]]]]" {
			t.Errorf("%v", r.Data)
		}
	})
}

func TestApproval(t *testing.T) {
	t.Parallel()
	w := start(t)
	for answer, want := range map[string]string{"true": `{"approve":{"content":[{"text":"done"}]}}`, "false": ""} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			e := w.do(t, `mutation { executeTool(input: {name: "approved"}) { is_error } }`, nil).refused(t, 200, "APPROVAL_REQUIRED", "approval_required", "no")
			query := fmt.Sprintf(`mutation { approve(id: "%s", approve: %s) { content { text } } }`, e.Extensions["approval"], answer)
			if want == "" {
				w.do(t, query, nil).refused(t, 200, "FORBIDDEN", "forbidden", "no")
			} else if got := w.do(t, query, nil).data(t); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			w.do(t, query, nil).refused(t, 200, "NOT_FOUND", "unknown_approval", "unknown")
		})
	}
}

func TestElicitation(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.do(t, `mutation { executeTool(input: {name: "color"}) { is_error } }`, nil).refused(t, 200, "INPUT_REQUIRED", "input_required", "no")
	held := fmt.Sprint(e.Extensions["elicitation"])
	if requests := fmt.Sprint(e.Extensions["requests"]); !strings.Contains(requests, "Which color?") {
		t.Error(requests)
	}
	if got := w.do(t, `{ getElicitations { elicitation name requests } getApprovals { approval } }`, nil).data(t); got != `{"getApprovals":[],"getElicitations":[{"elicitation":"`+held+`","name":"color","requests":null}]}` {
		t.Error(got)
	}
	if got := w.do(t, `{ getElicitation(id: "`+held+`") { title requests } }`, nil).data(t); !strings.Contains(got, `"requests":{"color":{"message":"Which color?","requested_schema":{`) {
		t.Error(got)
	}
	answer := func(with string) string {
		return `mutation { answerElicitation(id: "` + held + `", responses: ` + with + `) { content { text } } }`
	}
	w.do(t, answer(`{color: {action: "accept", content: {color: "mud"}}}`), nil).refused(t, 200, "BAD_USER_INPUT", "invalid_params", "no")
	if got := w.do(t, answer(`{color: {action: "accept", content: {color: "green"}}}`), nil).data(t); got != `{"answerElicitation":{"content":[{"text":"accept green"}]}}` {
		t.Error(got)
	}
	w.do(t, answer(`{color: {action: "decline"}}`), nil).refused(t, 200, "NOT_FOUND", "unknown_elicitation", "unknown")
	// Approvals can be found here, too.
	e = w.do(t, `mutation { executeTool(input: {name: "approved"}) { is_error } }`, nil).refused(t, 200, "APPROVAL_REQUIRED", "approval_required", "no")
	if got := w.do(t, `{ getApprovals { name shown } getApproval(id: "`+fmt.Sprint(e.Extensions["approval"])+`") { principal shown } }`, nil).data(t); got != `{"getApproval":{"principal":"anonymous","shown":"{}"},"getApprovals":[{"name":"approved","shown":null}]}` {
		t.Error(got)
	}
}

func TestCreateResource(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := make(chan string, 1)
	service.AddTool(w.Svc.Service, service.Tool{Name: "create_resource", InputSchema: []byte(`{"type":"object"}`)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			if got <- string(in); strings.Contains(string(in), "taken") {
				return nil, service.Errorf("there is one")
			}
			return &service.Result{Structured: map[string]any{
				"uri": "example://document1", "name": "Пример", "mimeType": "text/plain", "size": 1, "revision": 1,
			}}, nil
		})
	create := func(uri, mime string) string {
		return `mutation { createResource(input: {uri: "` + uri + `", name: "Пример", ` + mime + `: "text/plain", content: "x"}) { uri name description mimeType } }`
	}
	for _, mime := range []string{"mime_type", "mimeType"} {
		bustest.Eventually(t, "the tool is there", func() bool { return len(w.do(t, `{ getTool(name: "create_resource") { name } }`, nil).Errors) == 0 })
		if r := w.do(t, create("example://document1", mime), nil).data(t); r != `{"createResource":{"description":null,"mimeType":"text/plain","name":"Пример","uri":"example://document1"}}` {
			t.Error(r)
		}
		if in := edgetest.Receive(t, "the tool runs", got); in != `{"mimeType":"text/plain","name":"Пример","text":"x","uri":"example://document1"}` {
			t.Error(in)
		}
	}
	both := create("example://document1", `mimeType: "text/html", mime_type`)
	if e := w.do(t, both, nil).refused(t, 200, "BAD_USER_INPUT", "invalid_request", "no"); e.Message != "mime_type and mimeType are the same; give one of them" {
		t.Error(e.Message)
	}
	if e := w.do(t, create("example://taken", "mime_type"), nil).refused(t, 200, "BAD_USER_INPUT", "invalid_params", "unknown"); e.Message != "there is one" {
		t.Error(e.Message)
	}
}
