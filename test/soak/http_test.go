package soak

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/test/caller"
)

// client makes calls through a door, one at a time. After an answer that its connection broke, it
// cannot be used any more.
type client interface {
	call(context.Context, caller.Call) caller.Answer
	close()
}

// door is a way to call.
type door struct {
	name string
	open func(context.Context, *fleet, *edge) (client, error)
	// keyless: there is no place for an idempotency key.
	keyless bool
	// A connection costs a process, so it is opened less often.
	dear bool
}

var doors = []door{
	{name: "modern", open: stateless(caller.Modern)},
	{name: "legacy", open: openLegacy},
	{name: "sse", open: openSSE},
	{name: "mcp over /ws", open: openMCPSocket},
	{name: "/ws", open: openSocket},
	{name: "rest", open: stateless(caller.REST)},
	{name: "graphql", open: stateless(graphQLCall)},
	{name: "/v1", open: stateless(envelopeCall), keyless: true},
	{name: "grpc", open: openGRPC},
	{name: "stdio", open: openStdio, dear: true},
}

// callOnce is a door without connections of its own.
type callOnce struct {
	edge string
	do   func(context.Context, string, caller.Call) caller.Answer
}

func (s callOnce) call(ctx context.Context, c caller.Call) caller.Answer { return s.do(ctx, s.edge, c) }
func (callOnce) close()                                                  {}

func stateless(do func(context.Context, string, caller.Call) caller.Answer) func(context.Context, *fleet, *edge) (client, error) {
	return func(_ context.Context, _ *fleet, e *edge) (client, error) { return callOnce{e.web, do}, nil }
}

func graphQLCall(ctx context.Context, edge string, c caller.Call) caller.Answer {
	const document = `mutation($n:String!,$p:JSON,$k:String){done:executeTool(input:{name:$n,parameters:$p,idempotency_key:$k}){content{text} structured_content is_error}}`
	key := "null"
	if c.Key != "" {
		key = caller.Quoted(c.Key)
	}
	_, body, err := caller.Post(ctx, edge, "/graphql", fmt.Sprintf(`{"query":%s,"variables":{"n":%s,"p":%s,"k":%s}}`, caller.Quoted(document), caller.Quoted(c.Tool), c.Arguments, key))
	if err != nil {
		return caller.Broken(err)
	}
	var r struct {
		Data struct {
			Done jsontext.Value `json:"done"`
		} `json:"data"`
		Errors []struct {
			Extensions jsontext.Value `json:"extensions"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(body, &r); err == nil && len(r.Errors) > 0 {
		return caller.Refused(r.Errors[0].Extensions)
	}
	return caller.Result(r.Data.Done)
}

func envelopeCall(ctx context.Context, edge string, c caller.Call) caller.Answer {
	resp, body, err := caller.Post(ctx, edge, "/v1", fmt.Sprintf(`{"version":"1.0","action":{"name":%s,"parameters":%s}}`, caller.Quoted(c.Tool), c.Arguments))
	if err != nil {
		return caller.Broken(err)
	}
	if resp.StatusCode != http.StatusOK {
		return caller.Answer{Reason: resp.Header.Get("Busbar-Reason"), Executed: resp.Header.Get("Busbar-Executed"), Detail: string(body)}
	}
	var r struct {
		Status string         `json:"status"`
		Result jsontext.Value `json:"result"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Status != "success" {
		return caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: string(body)}
	}
	return caller.Answer{OK: true, Text: string(r.Result)}
}

func openLegacy(ctx context.Context, _ *fleet, e *edge) (client, error) {
	s, err := caller.OpenSession(ctx, e.web)
	if err != nil {
		return nil, err
	}
	return session{s}, nil
}

// session is a client that makes its calls in one.
type session struct{ *caller.Session }

func (s session) call(ctx context.Context, c caller.Call) caller.Answer { return s.Call(ctx, c) }
func (s session) close()                                                { s.Close() }
