package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// Tool describes a tool. Only Name is required.
type Tool struct {
	// Name has 1 to 128 characters of a-z, A-Z, 0-9, _, -, / and dot.
	Name        string
	Title       string
	Description string
	Icons       []mcp.Icon
	// Version lets several versions of a tool be served side by side, each added under the same
	// name: 1, 2 and so on. The newest has the plain name; version 1 of place is also place_v1, for
	// callers that are not ready for the new arguments. 0 means one version only.
	Version int

	// InputSchema and OutputSchema are JSON Schemas, used unchanged. If empty, they are inferred
	// from the handler's types.
	InputSchema  []byte
	OutputSchema []byte

	// ReadOnly says that a call changes nothing, so that it may be repeated if its answer is lost.
	// Idempotent says that a second call with the same arguments changes nothing further.
	ReadOnly   bool
	Idempotent bool
	// Annotations add further hints for clients; ReadOnly and Idempotent are filled in.
	Annotations mcp.ToolAnnotations
	// Meta is the tool's _meta in lists, a JSON object, unless nil. Its keys begin with a
	// domain of your own, com.example/.
	Meta any

	// Timeout is the longest a call, or a run of a task, may take. 0: the edge's
	// default, 30 s, for a call, and task.Timeout for a task.
	Timeout time.Duration
	// Task says whether calls may go on as tasks. Default: never.
	Task TaskMode
	// Cache lets an edge keep the result of a read-only tool for that long, for calls with equal
	// arguments by the same principal. A client may get a result of that age. 0 keeps nothing;
	// DefaultCache is a good value. Call.Expires shortens it for one result.
	Cache time.Duration
	// CacheShared says that the result is the same for all callers.
	CacheShared bool
	// RequiresUserApproval holds every call until a person agrees.
	RequiresUserApproval bool
	// KeepsKeys says that the handler itself makes a repeated Call.IdempotencyKey have one effect,
	// in the transaction of that effect, and calls Call.Replayed for a repetition. Otherwise an
	// edge keeps the outcome of a call with a key for 24 hours. A call whose end it did not hear is
	// never run again.
	KeepsKeys bool
	// CallsTools lets the handler call other tools; see Call.CallTool.
	CallsTools bool
}

// DefaultCache is a good Cache for most read-only tools.
const DefaultCache = 5 * time.Minute

type tool struct {
	wire *busv1.Tool
	task TaskMode
	// version is 0 for a tool without versions; as makes the tool under a name.
	version int
	as      func(name string) (*tool, error)

	invoke func(ctx context.Context, call *Call, arguments []byte) (*busv1.Result, error)
}

// AddTool adds a tool whose arguments are In and whose result is Out.
//
// In is a struct, or []byte for the arguments' JSON as the client sent it. Arguments have been
// validated against the input schema before the handler runs. Fields without omitempty or omitzero
// are required; unknown arguments are refused. A jsonschema tag describes a field. A schema tag
// limits its values, and sets its default:
//
//	Count int `json:"count" jsonschema:"how many" schema:"minimum=1,maximum=100,default=1"`
//
// The keywords are minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength,
// maxLength, pattern, format, enum, minItems, maxItems, uniqueItems, title, default and examples.
// enum and examples have | between values. For a list, minItems, maxItems and uniqueItems describe
// the list; all other keywords describe its elements. A format is for clients: nobody checks it.
//
// Out is any type that marshals to JSON; it becomes structuredContent, and text for clients that
// don't read that. A JSON string becomes plain text, without an output schema. With *Result the
// handler sets the content itself.
//
// The handler's context ends at the call's deadline or when its caller gives up. To report a
// failure, return Errorf, or a more specific error such as NotFound.
//
// Start refuses a service with a tool that is not well formed; see Service.Try.
func AddTool[In, Out any](s *Service, t Tool, handler func(ctx context.Context, call *Call, in In) (Out, error)) {
	t.Name = s.namespace + t.Name
	s.register("tool "+t.Name, func() error {
		if handler == nil {
			return errNoFunction
		}
		return s.addTool(t.Name, t.Version, func(name string) (*tool, error) {
			t := t
			t.Name = name
			wire, filled, err := toolWire[In, Out](&t)
			if err != nil {
				return nil, err
			}
			options, described := marshalOptions[Out](), len(t.OutputSchema) > 0
			return &tool{wire: wire, task: t.Task, invoke: func(ctx context.Context, call *Call, arguments []byte) (*busv1.Result, error) {
				in, err := decode[In](arguments, filled)
				if err != nil {
					return nil, err
				}
				out, err := handler(ctx, call, in)
				if err != nil {
					return nil, err
				}
				return encode(out, options, described)
			}}, nil
		})
	})
}

// ToolFunc answers a call. arguments are a JSON object as the client sent it, validated
// against the tool's InputSchema.
type ToolFunc func(ctx context.Context, call *Call, arguments []byte) (*Result, error)

// AddTool adds a tool whose schemas are known only at run time, such as another server's
// tool. Without InputSchema it takes any object; without OutputSchema it declares none.
func (s *Service) AddTool(t Tool, handler ToolFunc) {
	AddTool(s, t, handler)
}

// addTool adds a version of a tool. The newest one has the plain name.
func (s *Service) addTool(name string, version int, as func(name string) (*tool, error)) error {
	older := func(version int) string { return fmt.Sprintf("%s_v%d", name, version) }
	at, newest := name, s.tools[name]
	switch {
	case version < 0:
		return errors.New("a version is 1 or more")
	case newest == nil:
	case version == newest.version, version == 0, newest.version == 0:
		return errors.New("added twice")
	case version < newest.version:
		if at = older(version); s.tools[at] != nil {
			return errors.New("added twice")
		}
	default:
		of := older(newest.version)
		if s.tools[of] != nil {
			return fmt.Errorf("version %d needs the name %s, which another tool has", newest.version, of)
		}
		renamed, err := newest.as(of)
		if err != nil {
			return err
		}
		s.tools[of] = renamed
	}
	t, err := as(at)
	if err != nil {
		return err
	}
	if at == name { // the name of an older version has no versions of its own
		t.version, t.as = version, as
	}
	s.tools[at] = t
	return nil
}

// RemoveTool removes a tool. The name of an older version ends with _v and its number.
func (s *Service) RemoveTool(name string) {
	name = s.namespace + name
	s.register("tool "+name, func() error {
		delete(s.tools, name)
		return nil
	})
}

// toolWire converts a tool to its wire format. It fills in the schemas that t lacks.
func toolWire[In, Out any](t *Tool) (*busv1.Tool, defaults, error) {
	if err := validToolName(t.Name); err != nil {
		return nil, nil, err
	}
	if t.Task != TaskNever && t.Timeout > task.MaxTimeout {
		return nil, nil, fmt.Errorf("the time limit of a task is at most %v", task.MaxTimeout)
	}
	if t.Cache < 0 || t.Cache > 0 && !t.ReadOnly {
		return nil, nil, errors.New("results can be cached only for a ReadOnly tool")
	}
	var filled defaults
	var err error
	if len(t.InputSchema) == 0 {
		if t.InputSchema, filled, err = inputSchema[In](); err != nil {
			return nil, nil, fmt.Errorf("input schema: %w", err)
		}
	}
	if _, err := schema.CompileInput(t.InputSchema); err != nil {
		return nil, nil, fmt.Errorf("input schema: %w", err)
	}
	if len(t.OutputSchema) == 0 {
		if t.OutputSchema, err = outputSchema[Out](); err != nil {
			return nil, nil, fmt.Errorf("output schema: %w", err)
		}
	} else if _, err := schema.Compile(t.OutputSchema); err != nil {
		return nil, nil, fmt.Errorf("output schema: %w", err)
	}
	a := t.Annotations
	if t.ReadOnly {
		a.ReadOnlyHint = &t.ReadOnly
	}
	if t.Idempotent {
		a.IdempotentHint = &t.Idempotent
	}
	shown := mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, Icons: t.Icons,
		InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
	}
	if a != (mcp.ToolAnnotations{}) {
		shown.Annotations = &a
	}
	if shown.Meta, err = metaOf(t.Meta); err != nil {
		return nil, nil, err
	}
	data, err := marshal(shown)
	return &busv1.Tool{
		Name: t.Name, Json: data, InputSchema: t.InputSchema,
		TimeoutMs: uint32(t.Timeout.Milliseconds()),
		ReadOnly:  t.ReadOnly, Idempotent: t.Idempotent, RequiresUserApproval: t.RequiresUserApproval,
		CacheMs: uint32(t.Cache.Milliseconds()), CacheShared: t.CacheShared, CallsTools: t.CallsTools, KeepsKeys: t.KeepsKeys,
	}, filled, err
}

func validToolName(name string) error {
	ok := len(name) >= 1 && len(name) <= 128
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/')
	}
	if !ok {
		return errors.New("a tool's name is 1 to 128 characters of a-z, A-Z, 0-9, _, -, / and dot")
	}
	return nil
}

func (s *Service) callTool(ctx context.Context, call *Call) (*busv1.Result, error) {
	t := look(s, func() *tool { return s.tools[call.req.Name] })
	if t == nil {
		return nil, fault.New(fault.UnknownTool, "Unknown tool: %s", fault.Clip(call.req.Name))
	}
	call.tool = t
	if t.task != TaskNever {
		if err := call.becomes(t.task); err != nil {
			return nil, err
		}
	}
	result, err := t.invoke(ctx, call, call.req.Arguments)
	if err == nil {
		call.mark(result)
	}
	return result, err
}

// mark writes into a result what the handler set with Replayed and Expires.
func (c *Call) mark(r *busv1.Result) {
	if r != nil {
		r.Replayed, r.CacheMs = c.replayed.Load(), c.cacheMs()
	}
}
