package doors

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plainDoors speak HTTP and JSON without MCP.
var plainDoors = []door{
	{name: "REST", kind: "rest", call: rest, words: httpStatus},
	{name: "REST with events", kind: "rest", call: restEvents, words: httpStatus},
	{name: "REST batch", kind: "rest", call: restBatch, words: none, elsewhere: map[place]words{atMessage: httpStatus, atBody: httpStatus, atIdentity: httpStatus}},
	{name: "REST batch of lines", kind: "rest", call: restLines, words: none, elsewhere: map[place]words{atBody: httpStatus, atIdentity: httpStatus}},
	{name: "GraphQL", kind: "graphql", call: graphQL, words: graphQLDone,
		elsewhere: map[place]words{atMessage: graphQLRefused, atBody: graphQLRefused, atIdentity: graphQLRefused}},
	{name: "GraphQL executeTools", kind: "graphql", call: graphQLBatch, words: none,
		elsewhere: map[place]words{atMessage: graphQLRefused, atBody: graphQLRefused, atIdentity: graphQLRefused}},
	{name: "GraphQL over WebSocket", kind: "graphql", call: graphQLSocket, words: graphQLDone,
		elsewhere: map[place]words{atMessage: closed4400, atBody: closed1009, atIdentity: httpStatus}, silent: map[place]bool{atMessage: true, atBody: true}},
	{name: "WebSocket", kind: "websocket", call: socketMessages, words: socketCode,
		elsewhere: map[place]words{atBody: closed1009, atIdentity: httpStatus}, silent: map[place]bool{atBody: true}},
	{name: "WebSocket batch", kind: "websocket", call: socketBatch, words: none,
		elsewhere: map[place]words{atMessage: socketCode, atBody: closed1009, atIdentity: httpStatus}, silent: map[place]bool{atBody: true}},
	{name: "envelope", kind: "envelope", call: envelope, words: httpStatus, lacks: headersLack},
	{name: "envelope array", kind: "envelope", call: envelopeArray, words: none, lacks: envelopeLacks,
		elsewhere: map[place]words{atMessage: httpStatus, atBody: httpStatus, atIdentity: httpStatus}},
}

func rest(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/tools/"+c.tool, c.token, c.arguments)
	challenged(t, resp)
	if resp.StatusCode == http.StatusOK {
		return result(t, body)
	}
	o := problem(t, body)
	headers := byHeaders(t, resp, o.said)
	if fmt.Sprint(resp.StatusCode) != o.said || headers.reason != o.reason || headers.executed != o.executed {
		t.Errorf("%d %v, but the body %s", resp.StatusCode, resp.Header, body)
	}
	return o
}

// problem reads problem details.
func problem(t *testing.T, body []byte) outcome {
	t.Helper()
	var p struct {
		Status int            `json:"status"`
		Data   jsontext.Value `json:"data,omitzero"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Errorf("no problem details: %v\n%.500s", err, body)
		return outcome{}
	}
	o := refusal(t, body)
	o.said, o.data = fmt.Sprint(p.Status), nil
	if p.Data != nil {
		var members map[string]jsontext.Value
		_ = json.Unmarshal(p.Data, &members)
		o.data = facts(members)
	}
	return o
}

// byHeaders reads the headers of a refusal.
func byHeaders(t *testing.T, resp *http.Response, said string) outcome {
	t.Helper()
	o := outcome{reason: resp.Header.Get("Busbar-Reason"), executed: resp.Header.Get("Busbar-Executed"), said: said}
	if after := resp.Header.Get("Retry-After"); after != "" {
		seconds, err := strconv.Atoi(after)
		if err != nil || seconds < 1 {
			t.Errorf("Retry-After is %q", after)
		}
		o.retryMs = int64(seconds) * 1000
	}
	for what, path := range map[string]string{"approval": "/approvals/", "elicitation": "/elicitations/"} {
		if id, ok := strings.CutPrefix(resp.Header.Get("Location"), path); ok {
			o.data = map[string]string{what: id}
		}
	}
	return o
}

func restEvents(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/tools/"+c.tool, c.token, c.arguments, "Accept", "text/event-stream")
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return problem(t, body) // refused before there is a call
	}
	if _, data, ok := bytes.Cut(body, []byte("event: result\ndata: ")); ok {
		return result(t, bytes.TrimSpace(data))
	}
	_, data, _ := bytes.Cut(body, []byte("event: error\ndata: "))
	return problem(t, bytes.TrimSpace(data))
}

// batchCall is a call as one of a batch.
func batchCall(c call) string {
	if c.arguments == "" {
		return `{"name":"` + c.tool + `"}`
	}
	return `{"name":"` + c.tool + `","parameters":` + c.arguments + `}`
}

func restBatch(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/tools:batch", c.token, `{"calls":[`+batchCall(c)+`]}`)
	if resp.StatusCode != http.StatusOK {
		return problem(t, body)
	}
	var in struct {
		Results []jsontext.Value `json:"results"`
	}
	return one(t, body, &in, &in.Results)
}

func restLines(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/tools:batch", c.token, batchCall(c)+"\n", "Content-Type", "application/x-ndjson")
	var p struct {
		Status int `json:"status,omitzero"`
	}
	if json.Unmarshal(body, &p) == nil && p.Status != 0 {
		return problem(t, body)
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	return slot(t, body)
}

// one reads the only slot of a batch.
func one(t *testing.T, body []byte, in any, slots *[]jsontext.Value) outcome {
	t.Helper()
	if err := json.Unmarshal(body, in); err != nil || len(*slots) != 1 {
		t.Errorf("not a batch of one: %v\n%.500s", err, body)
		return outcome{}
	}
	return slot(t, (*slots)[0])
}

// Documents that call a tool.
const (
	executeTool  = `mutation($n:String!,$p:JSON){done:executeTool(input:{name:$n,parameters:$p}){content{text} structured_content is_error}}`
	executeTools = `mutation($n:String!,$p:JSON){done:executeTools(inputs:[{name:$n,parameters:$p}]){content{text} structured_content is_error error reason executed retry_after_ms data}}`
)

func graphQLRequest(document string, c call) string {
	variables := `"n":"` + c.tool + `"`
	if c.arguments != "" {
		variables += `,"p":` + c.arguments
	}
	return `{"query":"` + document + `","variables":{` + variables + `}}`
}

// graphQLResponse is one, or the payload of an error message.
type graphQLResponse struct {
	Data *struct {
		Done jsontext.Value `json:"done"`
	} `json:"data"`
	Errors []struct {
		Extensions jsontext.Value `json:"extensions"`
	} `json:"errors"`
}

func (r *graphQLResponse) outcome(t *testing.T, status int) outcome {
	t.Helper()
	if len(r.Errors) == 0 {
		if r.Data == nil {
			t.Error("a response without data and errors")
			return outcome{}
		}
		if r.Data.Done.Kind() == '[' {
			var slots []jsontext.Value
			return one(t, r.Data.Done, &slots, &slots)
		}
		return result(t, r.Data.Done)
	}
	var e struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(r.Errors[0].Extensions, &e)
	o := refusal(t, r.Errors[0].Extensions)
	o.said = fmt.Sprintf("%d %s", status, e.Code)
	return o
}

func graphQLPost(ctx context.Context, t *testing.T, w *world, document string, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/graphql", c.token, graphQLRequest(document, c))
	challenged(t, resp)
	var r graphQLResponse
	if err := json.Unmarshal(body, &r); err != nil {
		t.Errorf("%d %v\n%.500s", resp.StatusCode, err, body)
	}
	return r.outcome(t, resp.StatusCode)
}

func graphQL(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return graphQLPost(ctx, t, w, executeTool, c)
}

func graphQLBatch(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return graphQLPost(ctx, t, w, executeTools, c)
}

func graphQLSocket(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return w.socket(ctx, t, c.token, "/graphql", "graphql-transport-ws", func(s *socket) outcome {
		s.send(`{"type":"connection_init"}`)
		if _, ok := s.next(); !ok {
			return s.closed()
		}
		s.send(`{"id":"1","type":"subscribe","payload":` + graphQLRequest(executeTool, c) + `}`)
		b, ok := s.next()
		if !ok {
			return s.closed()
		}
		var m struct {
			Type    string         `json:"type"`
			Payload jsontext.Value `json:"payload"`
		}
		var r graphQLResponse
		err := json.Unmarshal(b, &m)
		if err == nil && m.Type == "next" {
			err = json.Unmarshal(m.Payload, &r)
		} else if err == nil {
			err = json.Unmarshal(m.Payload, &r.Errors)
		}
		if err != nil {
			t.Errorf("%v\n%.500s", err, b)
		}
		return r.outcome(t, http.StatusOK)
	})
}

func socketMessages(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return w.messages(ctx, t, c, `{"type":"tool_request","id":7,"data":`+batchCall(c)+`}`)
}

func socketBatch(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return w.messages(ctx, t, c, `{"type":"batch_request","id":7,"data":{"calls":[`+batchCall(c)+`]}}`)
}

// messages sends a message of the API of version 1.0.0 and reads the answer.
func (w *world) messages(ctx context.Context, t *testing.T, c call, message string) outcome {
	t.Helper()
	return w.socket(ctx, t, c.token, "/ws", "busbar", func(s *socket) outcome {
		s.send(message)
		b, ok := s.next()
		if !ok {
			return s.closed()
		}
		var m struct {
			Type  string         `json:"type"`
			Data  jsontext.Value `json:"data,omitzero"`
			Error struct {
				Code int            `json:"code"`
				Data jsontext.Value `json:"data"`
			} `json:"error,omitzero"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%v\n%.500s", err, b)
		}
		switch m.Type {
		case "tool_response":
			return result(t, m.Data)
		case "batch_result":
			return slot(t, m.Data)
		}
		o := refusal(t, m.Error.Data)
		o.said = fmt.Sprint(m.Error.Code)
		return o
	})
}

func action(c call) string {
	if c.arguments == "" {
		return `{"version":"1.0","action":{"name":"` + c.tool + `"}}`
	}
	return `{"version":"1.0","action":{"name":"` + c.tool + `","parameters":` + c.arguments + `}}`
}

func envelope(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/v1", c.token, action(c))
	challenged(t, resp)
	if resp.StatusCode != http.StatusOK {
		return byHeaders(t, resp, fmt.Sprint(resp.StatusCode))
	}
	return enveloped(t, body)
}

func envelopeArray(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/v1", c.token, "["+action(c)+"]")
	if resp.StatusCode != http.StatusOK {
		return byHeaders(t, resp, fmt.Sprint(resp.StatusCode))
	}
	var all []jsontext.Value
	if err := json.Unmarshal(body, &all); err != nil || len(all) != 1 {
		t.Errorf("not an array of one: %v\n%.500s", err, body)
		return outcome{}
	}
	return enveloped(t, all[0])
}

func enveloped(t *testing.T, v jsontext.Value) outcome {
	t.Helper()
	var e struct {
		Status string         `json:"status"`
		Result jsontext.Value `json:"result,omitzero"`
		Error  string         `json:"error,omitzero"`
		Reason string         `json:"reason,omitzero"`
	}
	if err := json.Unmarshal(v, &e); err != nil {
		t.Errorf("no envelope: %v\n%.500s", err, v)
		return outcome{}
	}
	switch {
	case e.Reason != "":
		return slot(t, v)
	case e.Status == "error":
		return outcome{text: e.Error, isError: true}
	case bytes.HasPrefix(e.Result, []byte(`{"content":[`)):
		return result(t, e.Result)
	}
	return outcome{structured: string(e.Result)}
}

// envelopeLacks: where there is structured content, the envelope has that alone.
func envelopeLacks(o *outcome) {
	if o.structured != "" {
		o.text = ""
	}
}

// headersLack: of an error the one envelope has the message, and headers the
// reason, whole seconds for 429 and 503, and the approval for 202.
func headersLack(o *outcome) {
	envelopeLacks(o)
	switch o.said {
	case "429", "503":
		o.retryMs = max(1, (o.retryMs+999)/1000) * 1000
	default:
		o.retryMs = 0
	}
	all := o.data
	o.data = nil
	for _, what := range []string{"approval", "elicitation"} {
		if id, held := all[what]; held && o.said == "202" {
			o.data = map[string]string{what: id}
		}
	}
}
