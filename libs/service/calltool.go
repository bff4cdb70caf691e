package service

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// ToolCall is a call of a tool, of any service.
type ToolCall struct {
	Name string
	// Arguments are anything that marshals to a JSON object; nil for none.
	Arguments any
	// IdempotencyKey makes a repeated call run only once, if the tool's service supports that.
	IdempotencyKey string
}

// ToolResult is what a tool returned, as it travels.
type ToolResult struct {
	Content jsontext.Value `json:"content"`
	// Structured is nil for none.
	Structured jsontext.Value `json:"structuredContent,omitzero"`
	// IsError marks the tool's own failure; Content says what went wrong.
	IsError bool `json:"isError,omitzero"`
	// Meta is the result's _meta; nil for none.
	Meta jsontext.Value `json:"-"`
}

// Text returns the text of all content blocks.
func (r *ToolResult) Text() string { return mcp.TextOf(r.Content) }

// CallTool calls a tool on behalf of the caller of this call. The caller must be allowed to call
// that tool: authorization, limits, approval and audit apply as to any call. The caller cannot be
// asked for input meanwhile, so a call that needs a person's approval is held, and the error has
// the id under which it is held.
//
// Only a tool with CallsTools may do this, until its call's deadline; a task may for 12 hours. The
// call ends with ctx. Every error is a *fault.Error. Its Executed is about the called tool alone
// or, with an idempotency key, about every call with that key. A handler may return the error
// unchanged, even after other tools that it called have run: the client is then told that it is
// unknown whether anything ran. A handler that has caused other effects must not return it
// unchanged.
func (c *Call) CallTool(ctx context.Context, t ToolCall) (*ToolResult, error) {
	var ran bus.Ran
	r, err := c.callTool(ctx, t, &ran)
	if f := fault.From(err); f != nil && f.Executed == fault.No && t.IdempotencyKey != "" && ran.Instance == "" {
		err = f.Ran(fault.Unknown) // no edge checked whether an earlier call with the key ran
	}
	if err == nil || fault.From(err).Executed != fault.No {
		c.ranOthers.Store(true)
	}
	return r, err
}

// callTool records in ran which edge answered.
func (c *Call) callTool(ctx context.Context, t ToolCall, ran *bus.Ran) (*ToolResult, error) {
	if c.tool == nil || !c.tool.wire.CallsTools {
		return nil, fault.New(fault.Internal, "only a tool with CallsTools may call others")
	}
	if len(c.req.Delegation) == 0 {
		return nil, fault.New(fault.Forbidden, "service %s may not call other tools: the edge gave it no delegation; services.%s.calls of the edge's policy file grants it", c.instance.service.name, c.instance.service.name)
	}
	req := &busv1.Request{
		Method: mcp.MethodToolsCall, Name: t.Name, IdempotencyKey: t.IdempotencyKey,
		Delegation: c.req.Delegation, Traceparent: c.req.Traceparent, Tracestate: c.req.Tracestate,
		Share: &busv1.Share{Payer: c.req.GetShare().GetPayer(), Depth: c.req.GetShare().GetDepth()},
	}
	arguments, err := marshal(t.Arguments)
	if err != nil {
		return nil, fault.New(fault.Internal, "the arguments of %s cannot be encoded", fault.Clip(t.Name)).Ran(fault.No).Because(err)
	}
	if string(arguments) != "null" { // a nil of some type, too
		req.Arguments = arguments
	}
	caller, err := c.instance.callers()
	if err != nil {
		return nil, fault.From(err)
	}
	frame, err := caller.CallWith(ctx, bus.Gateway, req, bus.Options{Ran: ran})
	if err != nil {
		return nil, err
	}
	result := &ToolResult{}
	if err := json.Unmarshal(frame.GetResult().GetJson(), result); err != nil {
		return nil, fault.New(fault.Internal, "the result of %s cannot be read", fault.Clip(t.Name)).Ran(fault.Yes).Because(err)
	}
	result.Meta = frame.GetResult().GetMeta()
	return result, nil
}

// CallTo is Call.CallTool and reads the result into an Out: the structured result, otherwise the
// text, for example into a string. If the tool itself fails, the error has the same kind and its
// text begins with the tool's name; the handler may return it.
func CallTo[Out any](ctx context.Context, c *Call, tool string, arguments any) (Out, error) {
	var out Out
	r, err := c.CallTool(ctx, ToolCall{Name: tool, Arguments: arguments})
	switch {
	case err != nil:
		return out, err
	case r.IsError:
		return out, failureOf(tool+": "+r.Text(), r.Meta)
	}
	if r.Structured == nil {
		text, err := jsontext.AppendQuote(nil, r.Text())
		if err == nil {
			err = json.Unmarshal(text, &out, durations)
		}
		if err != nil {
			return out, fault.New(fault.Internal, "the result of %s has no structured content", fault.Clip(tool)).Ran(fault.Yes).Because(err)
		}
		return out, nil
	}
	if err := json.Unmarshal(r.Structured, &out, durations); err != nil {
		return out, fault.New(fault.Internal, "the result of %s is of another form", fault.Clip(tool)).Ran(fault.Yes).Because(err)
	}
	return out, nil
}
