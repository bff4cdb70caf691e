package websocket_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	client "github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/door/websocket"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, c := range map[string]struct{ send, want string }{
		"initialize": {`{"type": "initialize", "id": "unique-request-id"}`, `{"type":"initialize_response","id":"unique-request-id","data":{"name":"busbar","version":"1.2.3","api_version":"1.0.0"}}`},
		"a tool": {`{"type":"tool_request","id":7,"data":{"name":"echo","parameters":{"a":9007199254740993}}}`,
			`{"type":"tool_response","id":7,"data":{"content":[{"type":"text","text":"{\"a\":9007199254740993}"}],"is_error":false}}`},
		"a tool's structured result": {`{"type":"tool_request","id":7,"data":{"name":"number","parameters":{"n":1.5}}}`,
			`{"type":"tool_response","id":7,"data":{"content":[{"type":"text","text":"1.5"}],"structured_content":1.5,"is_error":false}}`},
		"a tool's own failure": {`{"type":"tool_request","id":"x","data":{"name":"fails"}}`,
			`{"type":"tool_response","id":"x","data":{"content":[{"type":"text","text":"no such city"}],"is_error":true}}`},
		"a resource": {`{"type":"resource_request","id":"x","data":{"uri":"note:///one"}}`,
			`{"type":"resource_response","id":"x","data":{"contents":[{"uri":"note:///one","mimeType":"text/plain","text":"it is "}]}}`},
		"a prompt": {`{"type":"prompt_request","id":"x","data":{"name":"greet","arguments":{"who":"Ada"}}}`,
			`{"type":"prompt_response","id":"x","data":{"messages":[{"role":"user","content":{"type":"text","text":"Hello Ada"}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.dial(t)
			s.Send(c.send)
			s.Expect(c.want)
		})
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	s := start(t, nil).dial(t, "busbar")
	if s.Subprotocol() != websocket.Busbar {
		t.Errorf("subprotocol %q", s.Subprotocol())
	}
	s.Send(`{"type":"tool_request","id":"p","data":{"name":"progress"}}`)
	s.Expect(`{"type":"progress","id":"p","data":{"progress":1,"total":2,"message":"one\nline"}}`)
	s.Expect(`{"type":"progress","id":"p","data":{"progress":1,"total":2,"message":"not more than before"}}`)
	s.Expect(`{"type":"progress","id":"p","data":{"progress":2,"total":2}}`)
	s.Expect(`{"type":"log","id":"p","data":{"level":"error","logger":"te\nst","data":{"text":"two\nlines"}}}`)
	s.Expect(`{"type":"tool_response","id":"p","data":{"content":[{"type":"text","text":"done"}],"is_error":false}}`)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, c := range map[string]struct {
		send, id string
		code     int
		reason   string
		executed string
	}{
		"no such type":               {`{"type":"tools_request","id":1}`, "1", -32601, "method_not_found", "no"},
		"sampling, which no one has": {`{"type":"sampling_request","id":1,"data":{"messages":[{"role":"user","content":{"type":"text","text":"Hi?"}}],"max_tokens":1}}`, "1", -32000, "unavailable", "no"},
		"sampling of nothing":        {`{"type":"sampling_request","id":1,"data":{"messages":[],"max_tokens":1}}`, "1", -32000, "invalid_params", "no"},
		"an unknown tool":            {`{"type":"tool_request","id":1,"data":{"name":"nope"}}`, "1", -32000, "unknown_tool", "no"},
		"an unknown resource":        {`{"type":"resource_request","id":1,"data":{"uri":"example://document1"}}`, "1", -32000, "unknown_resource", "no"},
		"an unknown prompt":          {`{"type":"prompt_request","id":1,"data":{"name":"code_review"}}`, "1", -32000, "unknown_prompt", "no"},
		"bad parameters":             {`{"type":"tool_request","id":1,"data":{"name":"strict","parameters":{"text":1}}}`, "1", -32000, "invalid_params", "no"},
		"a defect":                   {`{"type":"tool_request","id":1,"data":{"name":"panics"}}`, "1", -32000, "internal", "unknown"},
		"a lost service":             {`{"type":"tool_request","id":1,"data":{"name":"lost-effect"}}`, "1", -32000, "peer_lost", "unknown"},
		"a tool that asks":           {`{"type":"tool_request","id":1,"data":{"name":"ask"}}`, "1", -32000, "input_required", "no"},
		"no data":                    {`{"type":"tool_request","id":1}`, "1", -32000, "invalid_request", "no"},
		"data that is no object":     {`{"type":"tool_request","id":1,"data":[]}`, "1", -32000, "invalid_request", "no"},
		"a member nobody knows":      {`{"type":"tool_request","id":1,"data":{"name":"echo","params":{}}}`, "1", -32000, "invalid_request", "no"},
		"a name in capitals":         {`{"Type":"initialize","id":1}`, "null", -32000, "invalid_request", "no"},
		"no id":                      {`{"type":"initialize"}`, "null", -32000, "invalid_request", "no"},
		"an id that is no integer":   {`{"type":"initialize","id":1.5}`, "null", -32000, "invalid_request", "no"},
		"a long id":                  {`{"type":"initialize","id":"` + strings.Repeat("x", 129) + `"}`, "null", -32000, "invalid_request", "no"},
		"no JSON":                    {`{"type":`, "null", -32000, "parse_error", "no"},
		"a member twice":             {`{"type":"initialize","id":1,"id":2}`, "null", -32000, "parse_error", "no"},
		"too deep":                   {`{"type":"initialize","id":1,"data":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "null", -32000, "invalid_request", "no"},
		"a batch that is none":       {`{"type":"batch_request","id":1,"data":{"calls":{}}}`, "1", -32000, "invalid_request", "no"},
		"half an approval":           {`{"type":"approval_response","id":1,"data":{"approval":"x"}}`, "1", -32000, "invalid_request", "no"},
		"an unknown approval":        {`{"type":"approval_response","id":1,"data":{"approval":"AAAAAAAAAAAAAAAAAAAAAAAAAA","approve":true}}`, "1", -32000, "unknown_approval", "no"},
		"a sampling request twofold": {`{"type":"sampling_request","id":1,"data":{"max_tokens":1,"maxTokens":1}}`, "1", -32000, "invalid_params", "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.dial(t)
			s.Send(c.send)
			if m := s.refused(c.id, c.code, c.reason, c.executed); m.Error != nil && strings.Contains(m.Error.Message, "secret") {
				t.Error(m.Error.Message)
			}
			s.Send(`{"type":"tool_request","id":"after","data":{"name":"echo"}}`) // the connection stays open
			if m := s.message(); m.Type != "tool_response" {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	t.Run("as they are done, and no more than there is room for", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t)
		for i := range websocket.MaxInFlight {
			s.Send(fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":"hold"}}`, i))
		}
		for range websocket.MaxInFlight {
			edgetest.Receive(t, "all run", w.Svc.Started)
		}
		s.Send(`{"type":"tool_request","id":"more","data":{"name":"safe"}}`)
		s.refused(`"more"`, -32000, "overloaded", "no")
		s.Send(`{"type":"tool_request","id":3,"data":{"name":"safe"}}`)
		s.refused("3", -32000, "invalid_request", "no")
		var ids []string
		for range websocket.MaxInFlight {
			w.release(t)
			m := s.message()
			if m.Type != "tool_response" {
				t.Errorf("%+v", m)
			}
			ids = append(ids, string(m.ID))
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != websocket.MaxInFlight {
			t.Errorf("%v", ids)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	s := w.dial(t)
	s.Send(`{"type":"tool_request","id":"a","data":{"name":"hold"}}`)
	edgetest.Receive(t, "it runs", w.Svc.Started)
	s.Send(`{"type":"cancel","id":"nobody"}`)
	s.Send(`{"type":"cancel","id":"a"}`)
	edgetest.Receive(t, "it hears of it", w.Svc.Ended)
	s.refused(`"a"`, -32000, "cancelled", "unknown")
	s.Send(`{"type":"tool_request","id":"a","data":{"name":"hold"}}`)
	edgetest.Receive(t, "another runs", w.Svc.Started)
	_ = s.CloseNow()
	edgetest.Receive(t, "it ends with its client", w.Svc.Ended)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	t.Run("each as it is done", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t)
		s.Send(`{"type":"batch_request","id":"b","data":{"parallel":2,"calls":[{"name":"echo","parameters":{"i":0}},{"name":"nope"},{"name":"fails"},7]}}`)
		reasons := map[int]string{}
		for range 4 {
			m := s.message()
			var slot struct {
				Index   int    `json:"index"`
				Reason  string `json:"reason"`
				IsError bool   `json:"is_error"`
			}
			if err := json.Unmarshal(m.Data, &slot); err != nil || m.Type != "batch_result" || string(m.ID) != `"b"` {
				t.Fatalf("%v %+v", err, m)
			}
			reasons[slot.Index] = fmt.Sprint(slot.Reason, slot.IsError)
		}
		if want := fmt.Sprint(map[int]string{0: "false", 1: "unknown_tooltrue", 2: "true", 3: "invalid_requesttrue"}); fmt.Sprint(reasons) != want {
			t.Errorf("%v, want %v", reasons, want)
		}
		s.Expect(`{"type":"batch_response","id":"b","data":{"calls":4,"failed":3}}`)
	})
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t)
		s.Send(`{"type":"batch_request","id":"b","data":{"parallel":1,"calls":[{"name":"hold"},{"name":"hold"}]}}`)
		edgetest.Receive(t, "one runs", w.Svc.Started)
		s.Send(`{"type":"cancel","id":"b"}`)
		edgetest.Receive(t, "it hears of it", w.Svc.Ended)
		for range 2 {
			if m := s.message(); !strings.Contains(string(m.Data), `"reason":"cancelled"`) {
				t.Errorf("%+v", m)
			}
		}
		s.Expect(`{"type":"batch_response","id":"b","data":{"calls":2,"failed":2}}`)
	})
}

func TestApproval(t *testing.T) {
	t.Parallel()
	s := start(t, nil).dial(t)
	for id, c := range map[string]struct{ approve, want string }{
		"yes": {"true", "tool_response"}, "no": {"false", "error"},
	} {
		s.Send(`{"type":"tool_request","id":"t","data":{"name":"approved"}}`)
		m := s.refused(`"t"`, -32000, "approval_required", "no")
		s.Send(`{"type":"approval_response","id":"` + id + `","data":{"approval":"` + m.Error.Data.Approval + `","approve":` + c.approve + `}}`)
		if m := s.message(); m.Type != c.want || string(m.ID) != `"`+id+`"` || m.Error != nil && m.Error.Data.Reason != "forbidden" {
			t.Errorf("%s: %+v", id, m)
		}
	}
}

func TestElicitation(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	s := w.dial(t)
	s.Send(`{"type":"tool_request","id":"t","data":{"name":"color"}}`)
	m := s.refused(`"t"`, -32000, "input_required", "no")
	if q := m.Error.Data.Requests["color"]; q.Message != "Which color?" || m.Error.Data.Elicitation == "" {
		t.Fatalf("%+v", m.Error)
	}
	// The caller answers, on whichever connection.
	other := w.dial(t)
	answer := func(with string) string {
		return `{"type":"elicitation_response","id":"a","data":{"elicitation":"` + m.Error.Data.Elicitation + `","responses":` + with + `}}`
	}
	other.Send(answer(`{"color":{"action":"accept","content":{"color":7}}}`))
	other.refused(`"a"`, -32000, "invalid_params", "no")
	other.Send(answer(`[]`))
	other.refused(`"a"`, -32000, "invalid_request", "no")
	other.Send(answer(`{"color":{"action":"decline"}}`))
	other.Expect(`{"type":"tool_response","id":"a","data":{"content":[{"type":"text","text":"decline "}],"is_error":false}}`)
	s.Send(answer(`{"color":{"action":"decline"}}`))
	s.refused(`"a"`, -32000, "unknown_elicitation", "unknown")
}

func TestSlowReader(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	s := w.dial(t)
	s.Send(`{"type":"tool_request","id":1,"data":{"name":"flood"}}`)
	edgetest.Receive(t, "it runs", w.Svc.Started)
	// Nobody reads: the system's buffers for the socket fill, a write takes too long, and
	// the client counts as gone.
	edgetest.Receive(t, "its call ends", w.Svc.Ended)
}

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("an edge that stops finishes what it began", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- w.Edge.Serve(ctx, l) }()
		w.url = "http://" + l.Addr().String() + "/ws"
		s, idle := w.dial(t), w.dial(t)
		s.Send(`{"type":"tool_request","id":1,"data":{"name":"hold"}}`)
		edgetest.Receive(t, "it runs", w.Svc.Started)
		stop()
		idle.Closed(client.StatusServiceRestart)
		s.Send(`{"type":"initialize","id":2}`)
		s.refused("2", -32000, "unavailable", "no")
		w.release(t)
		if m := s.message(); m.Type != "tool_response" {
			t.Errorf("%+v", m)
		}
		s.Closed(client.StatusServiceRestart)
		if err := edgetest.Receive(t, "the edge ends", served); err != nil {
			t.Error(err)
		}
	})
	t.Run("an edge that is closed ends its calls", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		s := w.dial(t)
		s.Send(`{"type":"tool_request","id":1,"data":{"name":"hold"}}`)
		edgetest.Receive(t, "it runs", w.Svc.Started)
		go w.Edge.Close()
		s.Closed(client.StatusServiceRestart)
		w.Edge.Close()
	})
	t.Run("credentials that hold no more", func(t *testing.T) {
		t.Parallel()
		k := &keys{revoked: make(chan struct{})}
		s := start(t, k).dial(t)
		s.Send(`{"type":"initialize","id":1}`)
		if m := s.message(); m.Type != "initialize_response" {
			t.Errorf("%+v", m)
		}
		close(k.revoked)
		s.Closed(4401)
	})
}

// Data of a wrong type is refused in the terms of its request.
func TestDataOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := start(t, nil).dial(t)
	for _, kind := range []string{"tool_request", "resource_request", "prompt_request", "sampling_request", "batch_request", "cancel"} {
		s.Send(`{"type":"` + kind + `","id":1,"data":[]}`)
		if m := s.refused("1", -32000, "invalid_request", "no"); m.Error != nil && m.Error.Data.Next != "send "+kind+" with data that is an object" {
			t.Errorf("%s: next is %q", kind, m.Error.Data.Next)
		}
	}
	s.Send(`{"type":"nope","id":1,"data":[]}`)
	if m := s.refused("1", -32601, "method_not_found", "no"); m.Error != nil && !strings.Contains(m.Error.Data.Next, "tool_request") {
		t.Errorf("an unknown type: next is %q", m.Error.Data.Next)
	}
}
