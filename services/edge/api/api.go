// Package api is what the doors besides MCP have in common. They reach the same tools,
// resources and prompts through the same gateway, and use the field names of the API of
// version 1.0.0 (ADR 0006). Start with Server and Caller in api.go.
package api

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Caller is the caller of a request, and the door that it came through.
type Caller struct {
	Door           string
	Credentials    gateway.Credentials
	IdempotencyKey string
	Traceparent    string
	Tracestate     string
	// Replayed, unless nil, is called when the answer to a write of a resource is the
	// result of an earlier write with the same key.
	Replayed func()
}

// Server answers the doors.
type Server struct {
	gateway *gateway.Gateway
	closing <-chan struct{}
}

// New makes a server. closing is closed when the edge stops.
func New(g *gateway.Gateway, closing <-chan struct{}) *Server { return &Server{g, closing} }

// Admit authenticates the holder of credentials; see gateway.Admit.
func (s *Server) Admit(ctx context.Context, door string, c gateway.Credentials) (gateway.Credentials, error) {
	return s.gateway.Admit(ctx, door, c)
}

// Lease keeps a stream open for a caller; see gateway.Lease.
func (s *Server) Lease(ctx context.Context, c Caller) (*gateway.Lease, error) {
	return s.gateway.Lease(ctx, c.Door, c.Credentials)
}

// enter admits a request that no service answers, and returns what its caller may see.
func (s *Server) enter(ctx context.Context, c Caller, method, name string) (*catalogue.Snapshot, error) {
	now, _, err := s.gateway.Browse(ctx, c.Call(method, name, nil, nil))
	return now, err
}

// The abilities of these doors' clients, as services learn them: a tool's caller can be
// asked later to fill in a form (AskLater of a call), and cannot be asked anything else.
var (
	client  = &busv1.Client{Capabilities: []byte("{}")}
	answers = &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
)

// Call makes a call of an MCP method for a caller. arguments is a JSON object, or empty.
// onFrame, if not nil, receives progress and logs.
func (c Caller) Call(method, name string, arguments []byte, onFrame gateway.OnFrame) *gateway.Call {
	call := &gateway.Call{
		Door: c.Door, Method: method, Name: name, Arguments: arguments, Credentials: c.Credentials, Client: client,
		IdempotencyKey: c.IdempotencyKey, Traceparent: c.Traceparent, Tracestate: c.Tracestate,
	}
	if method == mcp.MethodToolsCall {
		call.Client, call.AskLater = answers, true
	}
	if onFrame != nil {
		call.WantsProgress, call.LogLevel = true, busv1.LogLevel_LOG_LEVEL_INFO
	}
	return call
}

// Do carries out a call and returns its MCP result, a JSON object.
func (s *Server) Do(ctx context.Context, c *gateway.Call, onFrame gateway.OnFrame) (jsontext.Value, error) {
	result, _, err := s.DoOnce(ctx, c, onFrame)
	return result, err
}

// DoOnce is Do, and also says whether the result is the one to an earlier call with the
// same idempotency key.
func (s *Server) DoOnce(ctx context.Context, c *gateway.Call, onFrame gateway.OnFrame) (_ jsontext.Value, replayed bool, _ error) {
	answer, err := s.gateway.Do(ctx, c, onFrame)
	result, err := Outcome(answer, err)
	return result, err == nil && answer.Replayed, ofBody(c.Method, c.Door, c.Credentials.Toolset, err)
}

// Batch carries out calls concurrently; see gateway.Batch.
func (s *Server) Batch(ctx context.Context, parallel int, calls gateway.Calls, done func(i int, result jsontext.Value, err error)) {
	s.gateway.Batch(ctx, parallel, calls, outcomes(done))
}

// BatchInOrder is Batch with the outcomes in the order of the calls; see
// gateway.BatchInOrder.
func (s *Server) BatchInOrder(ctx context.Context, parallel int, calls gateway.Calls, done func(i int, result jsontext.Value, err error)) {
	s.gateway.BatchInOrder(ctx, parallel, calls, outcomes(done))
}

func outcomes(done func(i int, result jsontext.Value, err error)) func(int, *gateway.Answer, error) {
	return func(i int, a *gateway.Answer, err error) {
		result, err := Outcome(a, err)
		done(i, result, err)
	}
}

// Track and TrackAny open an account for the results of a request; see gateway.Track.
// Requests over HTTP have an account already, opened as Track does.
func (s *Server) Track(ctx context.Context) (context.Context, func()) { return s.gateway.Track(ctx) }
func (s *Server) TrackAny(ctx context.Context) (context.Context, func()) {
	return s.gateway.TrackAny(ctx)
}

// Outcome is the result of an answer, or the error in its place.
func Outcome(a *gateway.Answer, err error) (jsontext.Value, error) {
	switch {
	case err != nil:
		return nil, err
	case a.Result != nil:
		return a.Result.Json, nil
	case a.InputRequired != nil:
		return nil, fault.New(fault.MissingCapability, "the tool asks for input, which this door cannot pass on; use MCP")
	}
	return nil, fault.New(fault.Internal, "the service gave no result")
}

// Tool is a tool as these doors show it.
type Tool struct {
	Name                 string         `json:"name"`
	Title                string         `json:"title,omitzero"`
	Description          string         `json:"description"`
	InputSchema          jsontext.Value `json:"input_schema"`
	OutputSchema         jsontext.Value `json:"output_schema,omitzero"`
	Annotations          jsontext.Value `json:"annotations,omitzero"`
	RequiresUserApproval bool           `json:"requires_user_approval"`
	// Service is the tool's service, Version the version of the service's code.
	Service string `json:"service,omitzero"`
	Version string `json:"version,omitzero"`
}

// FindTool returns the tool with a name. The error is a *fault.Error with reason
// UnknownTool, or Unavailable while the bus does not answer.
func (s *Server) FindTool(ctx context.Context, c Caller, name string) (*Tool, error) {
	now, err := s.enter(ctx, c, mcp.MethodToolsList, name)
	if err != nil {
		return nil, err
	}
	entry, ok := now.Entry(catalogue.Tools, name)
	if !ok {
		return nil, s.gateway.Absent(gateway.UnknownTool(name))
	}
	needs, err := s.gateway.Needs(ctx, c.Credentials)
	if err != nil {
		return nil, err
	}
	return tool(now, entry, needs)
}

// tool reads an entry of a list. needs reports whether calls of a tool need approval.
func tool(now *catalogue.Snapshot, entry []byte, needs func(tool string, says bool) bool) (*Tool, error) {
	var in mcp.Tool
	if err := json.Unmarshal(entry, &in, json.RejectUnknownMembers(false)); err != nil {
		return nil, fault.From(err)
	}
	out := &Tool{Name: in.Name, Title: in.Title, Description: in.Description, InputSchema: in.InputSchema, OutputSchema: in.OutputSchema}
	if in.Annotations != nil {
		var err error
		if out.Annotations, err = json.Marshal(in.Annotations); err != nil {
			return nil, err
		}
	}
	if t, ok := now.Tool(in.Name); ok {
		out.Service, out.Version = t.Service, t.Version
		out.RequiresUserApproval = needs(now.ToolName(in.Name), t.Tool.RequiresUserApproval)
	}
	return out, nil
}

// Tools returns the tools after a cursor, up to limit of them, and the cursor
// of the next page, empty at the end.
func (s *Server) Tools(ctx context.Context, c Caller, cursor string, limit int) (tools []*Tool, next string, err error) {
	now, page, err := s.list(ctx, catalogue.Tools, c.Call(mcp.MethodToolsList, "", nil, nil), cursor, limit)
	if err != nil {
		return nil, "", err
	}
	needs, err := s.gateway.Needs(ctx, c.Credentials)
	if err != nil {
		return nil, "", err
	}
	entries := page.Entries()
	tools = make([]*Tool, len(entries))
	for i, e := range entries {
		if tools[i], err = tool(now, e, needs); err != nil {
			return nil, "", err
		}
	}
	return tools, page.Next, nil
}

// Revision is a comparable value that stays the same for as long as a caller sees the
// same tools.
func (s *Server) Revision(ctx context.Context, c Caller) (any, error) {
	return s.enter(ctx, c, mcp.MethodToolsList, "")
}

// Prompts returns the prompts after a cursor, as MCP has them.
func (s *Server) Prompts(ctx context.Context, c Caller, cursor string, limit int) (prompts []jsontext.Value, next string, err error) {
	return s.entries(ctx, catalogue.Prompts, c.Call(mcp.MethodPromptsList, "", nil, nil), cursor, limit)
}

// Resources returns the resources after a cursor, as MCP has them.
func (s *Server) Resources(ctx context.Context, c Caller, cursor string, limit int) (resources []jsontext.Value, next string, err error) {
	return s.entries(ctx, catalogue.Resources, c.Call(mcp.MethodResourcesList, "", nil, nil), cursor, limit)
}

// FindPrompt returns the prompt with a name, or a *fault.Error with reason UnknownPrompt.
func (s *Server) FindPrompt(ctx context.Context, c Caller, name string) (jsontext.Value, error) {
	return s.gateway.FindPrompt(ctx, c.Call(mcp.MethodPromptsList, name, nil, nil), name)
}

func (s *Server) entries(ctx context.Context, kind catalogue.Kind, call *gateway.Call, cursor string, limit int) ([]jsontext.Value, string, error) {
	_, page, err := s.list(ctx, kind, call, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	return page.Entries(), page.Next, nil
}

// list returns a page after a cursor, up to limit entries; 0 means all that the catalogue has.
func (s *Server) list(ctx context.Context, kind catalogue.Kind, call *gateway.Call, cursor string, limit int) (*catalogue.Snapshot, *catalogue.Page, error) {
	var at []byte
	if cursor != "" {
		at = []byte(cursor)
	}
	return s.gateway.List(ctx, kind, call, at, cmp.Or(limit, catalogue.Everything))
}

// Result is a tool's result in the form of these doors.
type Result struct {
	Content           jsontext.Value `json:"content"`
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	IsError           bool           `json:"is_error"`
}

// ReadResult reads a tools/call result of MCP.
func ReadResult(result jsontext.Value) (*Result, error) {
	var in struct {
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent,omitzero"`
		IsError    bool           `json:"isError,omitzero"`
	}
	if err := json.Unmarshal(result, &in); err != nil {
		return nil, fault.From(err)
	}
	if in.Content == nil {
		in.Content = jsontext.Value("[]")
	}
	return &Result{in.Content, in.Structured, in.IsError}, nil
}

// Text is the text of the content, for doors that show nothing else.
func (r *Result) Text() string { return mcp.TextOf(r.Content) }

// Closing is closed when the edge stops and open streams have to end.
func (s *Server) Closing() <-chan struct{} { return s.closing }
