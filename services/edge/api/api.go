// Package api is what the doors besides MCP have in common. They reach the same tools,
// resources and prompts through the same gateway, and use the field names of the API of
// version 1.0.0 (ADR 0006). Each operation has one entry in Operations, in table.go; each
// door is a codec over it (ADR 0111). Start there, then with Server and Caller in api.go.
package api

import (
	"context"

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
	// OnFrame, unless nil, receives the progress and the logs of a call.
	OnFrame gateway.OnFrame
	// Replayed, unless nil, is set if the answer is the one to an earlier call with the
	// same key.
	Replayed *bool
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
	now, _, err := s.gateway.Browse(ctx, c.Call(method, name, nil))
	return now, err
}

// The abilities of these doors' clients, as services learn them: a tool's caller can be
// asked later to fill in a form (AskLater of a call), and cannot be asked anything else.
var (
	client  = &busv1.Client{Capabilities: []byte("{}")}
	answers = &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
)

// Call makes a call of an MCP method for a caller. arguments is a JSON object, or empty.
func (c Caller) Call(method, name string, arguments []byte) *gateway.Call {
	call := &gateway.Call{
		Door: c.Door, Method: method, Name: name, Arguments: arguments, Credentials: c.Credentials, Client: client,
		IdempotencyKey: c.IdempotencyKey, Traceparent: c.Traceparent, Tracestate: c.Tracestate,
	}
	if method == mcp.MethodToolsCall {
		call.Client, call.AskLater = answers, true
	}
	if c.OnFrame != nil {
		call.WantsProgress, call.LogLevel = true, busv1.LogLevel_LOG_LEVEL_INFO
	}
	return call
}

// do carries out a call and returns its MCP result, a JSON object.
func (s *Server) do(ctx context.Context, who Caller, c *gateway.Call) (jsontext.Value, error) {
	answer, err := s.gateway.Do(ctx, c, who.OnFrame)
	result, err := Outcome(answer, err)
	if err == nil && answer.Replayed && who.Replayed != nil {
		*who.Replayed = true
	}
	return result, ofBody(c.Method, c.Door, c.Credentials.Toolset, err)
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

// Closing is closed when the edge stops and open streams have to end.
func (s *Server) Closing() <-chan struct{} { return s.closing }
