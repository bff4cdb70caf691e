package api

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Operation is something that callers may ask for. Operations has each of them once; the
// doors decode an input, run the operation and encode its output.
type Operation struct {
	// Name is the operationId of OpenAPI, and Does its summary.
	Name, Does string
	// Method is the name by which the policy decides who may do it, limits count it, and
	// the audit trail records it.
	Method string
	// Pages is set for a list that comes in pages, Streams for a call that reports
	// progress, and Waits for one that a person may have to decide on first.
	Pages, Streams, Waits bool
	// HTTP, GraphQL, GRPC, Message and Command are where it is offered; empty for
	// nowhere.
	HTTP    HTTP
	GraphQL []Field
	GRPC    string
	Message Message
	Command string
	// Run is nil for an operation that answers many times, which each door does in its
	// own form.
	Run Run
}

// HTTP is a request of plain HTTP, and what OpenAPI says about it. Schemas are in JSON.
type HTTP struct {
	// Path has the method and the path, "GET /tools/{name}".
	Path string
	// Keyed is set if it takes an idempotency key, Optional if it needs no body, and Tagged
	// if a client may ask whether the answer has changed.
	Keyed, Optional, Tagged bool
	// More is the description. Gives says what the answer with 200 is, or with 204 without
	// a schema; Made says it of the answer with 201.
	More, Gives, Made string
	// Takes is the schema of the body, As the schema of the answer, Also another parameter.
	// TakesLine and AsLine are the schemas of lines, application/x-ndjson.
	Takes, As, Also, TakesLine, AsLine string
}

// InToolsets are the first segments of the paths that each toolset has too.
var InToolsets = []string{"tools", "tools:batch", "prompts", "resources"}

// Field is a field of GraphQL.
type Field struct {
	// Root is Query, Mutation or Subscription.
	Root string
	// Is is the field in GraphQL's schema language, Says its description.
	Is, Says string
}

// Message is a message of a WebSocket: its type, the type of its answer, and the form of
// its data.
type Message struct{ Type, Answer, Form string }

// Run reads the input of an operation, and returns how to carry it out.
type Run func(in Reader) (Carry, error)

// Reader reads the input of an operation. in is a pointer to it.
type Reader interface{ Read(in any) error }

// Carry carries an operation out for a caller, and returns its output.
type Carry interface {
	Carry(ctx context.Context, s *Server, who Caller) (any, error)
}

type carry[In, Out any] struct {
	in In
	do func(*Server, context.Context, Caller, In) (Out, error)
}

// Carry implements Carry.
func (c *carry[In, Out]) Carry(ctx context.Context, s *Server, who Caller) (any, error) {
	return c.do(s, ctx, who, c.in)
}

// run is an operation that the server carries out with a method.
func run[In, Out any](do func(*Server, context.Context, Caller, In) (Out, error)) Run {
	return func(r Reader) (Carry, error) {
		c := &carry[In, Out]{do: do}
		if err := r.Read(&c.in); err != nil {
			return nil, err
		}
		return c, nil
	}
}

// The inputs of operations. Besides, there is string, the name, URI or id of one thing,
// ToolCall, PromptCall, Write, Decision, Answers, and jsontext.Value, an object.
type (
	// None stands for an input or an output that is not there.
	None struct{}
	// Page is a part of a list: up to Limit entries after a cursor. Limit 0 means all.
	Page struct {
		Cursor string
		Limit  int
	}
)

// List is an output: entries under the name of a member, and the cursor of the next page,
// empty at the end.
type List[T any] struct {
	Member  string
	Entries []T
	Next    string
}

// MarshalJSONTo writes the entries as a member of an object, and the cursor if there is one.
func (l List[T]) MarshalJSONTo(e *jsontext.Encoder) error {
	parts := []any{jsontext.BeginObject, l.Member, l.Entries, "next_cursor", l.Next, jsontext.EndObject}
	if l.Next == "" {
		parts = append(parts[:3], jsontext.EndObject)
	}
	for _, part := range parts {
		var err error
		if token, ok := part.(jsontext.Token); ok {
			err = e.WriteToken(token)
		} else {
			err = json.MarshalEncode(e, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
