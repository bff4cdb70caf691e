package servicetest

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// maxDepth is the limit of an edge: how deep tools may call tools.
const maxDepth = 4

// delegate lets a service call tools on behalf of this caller. An edge seals the delegation; a test
// does not need that.
func (b *Bus) delegate(svc string, depth uint32) ([]byte, error) {
	return proto.Marshal(&busv1.Delegation{Identity: b.identity, Service: svc, Depth: depth})
}

// serveGateway takes the calls that services make.
func (b *Bus) serveGateway(ctx context.Context) (*bus.Server, error) {
	return bus.ServeGateway(ctx, b.shared.conn, bus.ServerConfig{Handler: b.nested})
}

func (b *Bus) nested(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
	d := &busv1.Delegation{}
	if err := proto.Unmarshal(req.Delegation, d); err != nil || d.Service != out.Sender() {
		return nil, fault.New(fault.Forbidden, "no call is under way on whose behalf this one could be made")
	}
	if d.Depth > maxDepth {
		return nil, fault.New(fault.Forbidden, "tools that call tools are %d deep, and at most %d are allowed", d.Depth, maxDepth)
	}
	b.shared.mu.Lock()
	stub := b.shared.stubs[req.Name]
	b.shared.mu.Unlock()
	if stub != nil {
		v, err := stub(req.Arguments)
		return stubbed(v, err)
	}
	t, svc, err := b.tool(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	again := b.request(mcp.MethodToolsCall, req.Name)
	again.Arguments, again.IdempotencyKey, again.Identity = req.Arguments, req.IdempotencyKey, d.Identity
	again.Client.Capabilities = []byte("{}") // the caller cannot be asked meanwhile
	again.AskFirst = !t.ReadOnly
	if t.CallsTools {
		if again.Delegation, err = (&Bus{identity: d.Identity}).delegate(svc, d.Depth+1); err != nil {
			return nil, err
		}
	}
	frame, err := b.shared.caller.Call(ctx, svc, again, nil)
	if err != nil {
		return nil, err
	}
	if frame.GetResult() == nil {
		return nil, fault.New(fault.MissingCapability, "tool %s asks for input, which nobody can give here", req.Name)
	}
	return frame.GetResult(), nil
}

// stubbed is the result of a tool that a test stands in for.
func stubbed(v any, err error) (proto.Message, error) {
	text, structured := "", []byte(nil)
	switch said, plain := v.(string); {
	case err != nil:
		text = err.Error()
	case plain:
		text = said
	default:
		var merr error
		if structured, merr = json.Marshal(v, json.Deterministic(true)); merr != nil {
			return nil, fmt.Errorf("the value of the stub: %w", merr)
		}
		text = string(structured)
	}
	body, merr := json.Marshal(struct {
		Content    []mcp.Content  `json:"content"`
		Structured jsontext.Value `json:"structuredContent,omitzero"`
		IsError    bool           `json:"isError,omitzero"`
	}{[]mcp.Content{mcp.Text(text)}, structured, err != nil})
	return &busv1.Result{Json: body, IsError: err != nil}, merr
}
