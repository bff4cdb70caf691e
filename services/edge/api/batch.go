package api

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// BatchCall is one call of a batch. Its arguments stand under one of three names.
type BatchCall struct {
	Name           string         `json:"name"`
	Parameters     jsontext.Value `json:"parameters,omitzero"`
	Arguments      jsontext.Value `json:"arguments,omitzero"`
	Args           jsontext.Value `json:"args,omitzero"`
	IdempotencyKey *string        `json:"idempotency_key,omitzero"`
}

// ReadBatchCall reads one call strictly.
func ReadBatchCall(b []byte) (*BatchCall, error) {
	c := &BatchCall{}
	if err := json.Unmarshal(b, c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fault.New(fault.InvalidRequest, "a call of a batch is an object with name and parameters").Because(err)
	}
	if c.Name == "" {
		return nil, fault.New(fault.InvalidRequest, "a call of a batch needs a name")
	}
	if c.IdempotencyKey != nil {
		if err := mcp.CheckIdempotencyKey(*c.IdempotencyKey); err != nil {
			return nil, err
		}
	}
	if given := c.given(); len(given) > 1 {
		return nil, fault.New(fault.InvalidRequest, "parameters, arguments and args of a call are the same; give one of them")
	}
	if v := c.arguments(); v != nil && v.Kind() != '{' {
		return nil, fault.New(fault.InvalidParams, "parameters must be a JSON object")
	}
	return c, nil
}

func readBatchCall(raw jsontext.Value, check func(jsontext.Value) error) (*BatchCall, error) {
	if check != nil {
		if err := check(raw); err != nil {
			return nil, err
		}
	}
	return ReadBatchCall(raw)
}

// given are the arguments under each of the names that the call uses.
func (c *BatchCall) given() []jsontext.Value {
	return slices.DeleteFunc([]jsontext.Value{c.Parameters, c.Arguments, c.Args}, func(v jsontext.Value) bool { return v == nil })
}

// arguments are nil if the call has none.
func (c *BatchCall) arguments() jsontext.Value {
	if given := c.given(); len(given) > 0 {
		return given[0]
	}
	return nil
}

// BatchCalls reads the calls of a batch one at a time, when they are wanted. check is nil
// if the whole batch was checked before.
func BatchCalls(who Caller, check func(jsontext.Value) error, all iter.Seq[jsontext.Value]) gateway.Calls {
	return func(yield func(*gateway.Call, error) bool) {
		for raw := range all {
			c, err := readBatchCall(raw, check)
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			if !yield(c.Call(who, nil), nil) {
				return
			}
		}
	}
}

// Call is the gateway's call for a caller; see Caller.Call for onFrame.
func (c *BatchCall) Call(who Caller, onFrame gateway.OnFrame) *gateway.Call {
	call := who.Call(mcp.MethodToolsCall, c.Name, c.arguments(), onFrame)
	if call.IdempotencyKey = ""; c.IdempotencyKey != nil {
		call.IdempotencyKey = *c.IdempotencyKey
	}
	return call
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

// NewSlot makes a slot of an MCP tools/call result, or of an error in the words of a
// door.
func NewSlot(result jsontext.Value, err error, door string) Slot {
	var r *Result
	if err == nil {
		r, err = ReadResult(result)
	}
	if err != nil {
		f := fault.From(err)
		return Slot{Error: f.Message, Reason: f.Reason, Executed: f.Executed, Next: forms.Next(f, door), RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data, IsError: true}
	}
	return Slot{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
}
