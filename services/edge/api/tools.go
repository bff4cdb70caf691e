package api

import (
	"context"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// ToolCall is a call of a tool, alone or in a batch. Its arguments stand under one of three
// names. It may have an idempotency key of its own.
type ToolCall struct {
	Name           string         `json:"name"`
	Parameters     jsontext.Value `json:"parameters,omitzero"`
	Arguments      jsontext.Value `json:"arguments,omitzero"`
	Args           jsontext.Value `json:"args,omitzero"`
	IdempotencyKey *string        `json:"idempotency_key,omitzero"`
}

// Read reads a call strictly.
func (c *ToolCall) Read(b []byte) error {
	if err := json.Unmarshal(b, c, json.RejectUnknownMembers(true)); err != nil {
		return fault.New(fault.InvalidRequest, "a call of a batch is an object with name and parameters").Because(err)
	}
	if c.Name == "" {
		return fault.New(fault.InvalidRequest, "a call of a batch needs a name")
	}
	if c.IdempotencyKey != nil {
		if err := mcp.CheckIdempotencyKey(*c.IdempotencyKey); err != nil {
			return err
		}
	}
	if c.Parameters != nil && (c.Arguments != nil || c.Args != nil) || c.Arguments != nil && c.Args != nil {
		return fault.New(fault.InvalidRequest, "parameters, arguments and args of a call are the same; give one of them")
	}
	if v := c.arguments(); v != nil && v.Kind() != '{' {
		return fault.New(fault.InvalidParams, "parameters must be a JSON object")
	}
	return nil
}

// arguments are nil if the call has none.
func (c *ToolCall) arguments() jsontext.Value {
	for _, v := range [...]jsontext.Value{c.Parameters, c.Arguments, c.Args} {
		if v != nil {
			return v
		}
	}
	return nil
}

// BatchCalls reads the calls of a batch one at a time, when they are wanted. check is nil
// if the whole batch was checked before.
func BatchCalls(who Caller, check func(jsontext.Value) error, all iter.Seq[jsontext.Value]) gateway.Calls {
	return func(yield func(*gateway.Call, error) bool) {
		for raw := range all {
			var c ToolCall
			var err error
			if check != nil {
				err = check(raw)
			}
			if err == nil {
				err = c.Read(raw)
			}
			if !yield(c.Call(who), err) {
				return
			}
		}
	}
}

// Call is the gateway's call for a caller.
func (c *ToolCall) Call(who Caller) *gateway.Call {
	if c.IdempotencyKey != nil {
		who.IdempotencyKey = *c.IdempotencyKey
	}
	return who.Call(mcp.MethodToolsCall, c.Name, c.arguments())
}

// CallTool calls a tool.
func (s *Server) CallTool(ctx context.Context, who Caller, in ToolCall) (*Result, error) {
	return toolResult(s.do(ctx, who, in.Call(who)))
}

// Batch carries out calls concurrently; see gateway.Batch.
func (s *Server) Batch(ctx context.Context, parallel int, calls gateway.Calls, done func(i int, r *Result, err error)) {
	s.gateway.Batch(ctx, parallel, calls, results(done))
}

// BatchInOrder is Batch with the outcomes in the order of the calls; see
// gateway.BatchInOrder.
func (s *Server) BatchInOrder(ctx context.Context, parallel int, calls gateway.Calls, done func(i int, r *Result, err error)) {
	s.gateway.BatchInOrder(ctx, parallel, calls, results(done))
}

func results(done func(i int, r *Result, err error)) func(int, *gateway.Answer, error) {
	return func(i int, a *gateway.Answer, err error) {
		r, err := toolResult(Outcome(a, err))
		done(i, r, err)
	}
}

// Slot is the outcome of one call of a batch: its result, or why it has no result.
type Slot struct {
	// Index is the call's place in the batch. It is set in streams of slots, which come
	// in the order in which calls end.
	Index             *int           `json:"index,omitzero"`
	Content           jsontext.Value `json:"content,omitzero"`
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	Error             string         `json:"error,omitzero"`
	Reason            fault.Reason   `json:"reason,omitzero"`
	Executed          fault.Executed `json:"executed,omitzero"`
	Next              string         `json:"next,omitzero"`
	RetryAfterMS      int64          `json:"retry_after_ms,omitzero"`
	// Data are further facts, which depend on the reason.
	Data    jsontext.Value `json:"data,omitzero"`
	IsError bool           `json:"is_error"`
}

// NewSlot makes a slot of a result, or of an error in the words of a door.
func NewSlot(r *Result, err error, door string) Slot {
	if err != nil {
		f := fault.From(err)
		return Slot{Error: f.Message, Reason: f.Reason, Executed: f.Executed, Next: forms.Next(f, door), RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data, IsError: true}
	}
	return Slot{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
}

// Result is a tool's result in the form of these doors.
type Result struct {
	Content           jsontext.Value `json:"content"`
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	IsError           bool           `json:"is_error"`
}

// toolResult reads a tools/call result of MCP, if there is one.
func toolResult(result jsontext.Value, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	in := &struct { // Result, with the names of MCP
		Content           jsontext.Value `json:"content"`
		StructuredContent jsontext.Value `json:"structuredContent,omitzero"`
		IsError           bool           `json:"isError,omitzero"`
	}{}
	if err := json.Unmarshal(result, in); err != nil {
		return nil, fault.From(err)
	}
	if in.Content == nil {
		in.Content = jsontext.Value("[]")
	}
	return (*Result)(in), nil
}

// Text is the text of the content, for doors that show nothing else.
func (r *Result) Text() string { return mcp.TextOf(r.Content) }
