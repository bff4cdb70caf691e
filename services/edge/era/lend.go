package era

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// maxLent is how many requests for its model one client has open at once.
const maxLent = 4

// lender is a legacy client that offers sampling, while it has a stream over
// which it can be asked at any time: it lends its model to callers of its own
// principal that bring none. Later versions have no such stream.
type lender struct {
	stream *changeStream
	// client ends with the client's connection.
	client context.Context
	slots  chan struct{}
}

// lend begins to lend the client's model, if it offers that. end waits for what
// the client is asked already.
func (c *changeStream) lend(ctx context.Context) (end func()) {
	end = func() {}
	now := c.session(ctx)
	if c.principal == "" || now == nil || sampling(now.Capabilities) == nil {
		return end
	}
	l := &lender{stream: c, client: ctx, slots: make(chan struct{}, maxLent)}
	server, err := c.server.gateway.Lend(c.principal, l.sample)
	if err != nil {
		c.server.log.Warn("a client's model cannot be lent", "error", err)
	}
	if server == nil {
		return end
	}
	return func() { _ = server.Drain(ctx) }
}

// sampling is what a client says of its sampling; nil when it has none.
func sampling(capabilities []byte) map[string]jsontext.Value {
	var all struct {
		Sampling map[string]jsontext.Value `json:"sampling"`
	}
	_ = json.Unmarshal(capabilities, &all) // what is malformed is not there
	return all.Sampling
}

// sample asks the client for a message of its model.
func (l *lender) sample(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
	params, err := l.params(req)
	if err != nil {
		return nil, err
	}
	now := l.stream.session(ctx)
	if now == nil {
		l.stream.over()
		return nil, fault.New(fault.Overloaded, "the client that lends its model is leaving; try again")
	}
	if _, tools := sampling(now.Capabilities)["tools"]; !tools && (params["tools"] != nil || params["toolChoice"] != nil) {
		return nil, fault.New(fault.MissingCapability, "the client that lends its model does not let it use tools").
			With([]byte(`{"requiredCapabilities":{"sampling":{"tools":{}}}}`))
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return nil, fault.New(fault.Overloaded, "the client that lends its model is asked %d times already; try again shortly", maxLent)
	}
	message, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return l.ask(ctx, now.ID, message)
}

// params are those of the caller, without what is said to this server alone.
func (l *lender) params(req *busv1.Request) (map[string]jsontext.Value, error) {
	if req.Method != mcp.MethodSample {
		return nil, fault.New(fault.MethodNotFound, "clients lend their models only")
	}
	var params map[string]jsontext.Value
	if err := json.Unmarshal(req.Arguments, &params); err != nil {
		return nil, fault.New(fault.InvalidParams, "params must be an object").Because(err)
	}
	delete(params, "_meta")
	delete(params, "task") // 2025-11-25: nobody would come back for it
	return params, nil
}

// ask makes the request and waits for the answer. ctx ends with the client too:
// its server is drained then.
func (l *lender) ask(ctx context.Context, session string, params []byte) (*busv1.Result, error) {
	q := l.stream.server.gateway.Ask()
	defer q.Close()
	if !l.stream.say(serverRequest(q.ID, mcp.MethodSample, params)) {
		return nil, fault.New(fault.Unavailable, "the client that lent its model is gone; nothing was asked")
	}
	answer, err := q.Wait(ctx, session)
	switch {
	case err != nil && l.client.Err() != nil:
		return nil, fault.New(fault.PeerLost, "the client that lent its model is gone; whether the model answered is unknown")
	case err != nil:
		l.stream.say(withdrawal(q))
		return nil, err
	case len(answer.Error) > 0:
		return nil, declined(answer.Error)
	}
	if err := service.CheckAnswer("", []byte(`{"method":"`+mcp.MethodSample+`"}`), answer.Result); err != nil {
		return nil, fault.New(fault.Unavailable, "the client that lent its model gave an answer without role, content or model").Because(err).Ran(fault.Yes)
	}
	return &busv1.Result{Json: answer.Result}, nil
}

// codeRejected is the error of a client whose user does not agree (2025-11-25,
// client/sampling, Error Handling).
const codeRejected = -1

// declined says what a client's error means to whoever borrows its model.
func declined(raw []byte) error {
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitzero"`
	}
	_ = json.Unmarshal(raw, &e) // without a message it says less
	says := fault.Clip(e.Message)
	switch e.Code {
	case codeRejected:
		return fault.New(fault.Forbidden, "the user of the client that lends its model declined: %s", says)
	case mcp.CodeInvalidParams:
		return fault.New(fault.InvalidParams, "the client that lends its model refuses the request: %s", says)
	}
	return fault.New(fault.Unavailable, "the client that lends its model failed: %s", says).Ran(fault.Unknown)
}
