// Package gateway is the one way a call takes from any door to the bus: a
// chain of links, each one policy in one file. Doors differ in wire format
// only; every call gets the same treatment here.
package gateway

import (
	"context"
	"crypto/sha256"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Call is one request of a client, whatever door it came through. Byte slices
// are the client's own and are not changed.
type Call struct {
	// Door names the front door, for audit and metrics.
	Door string
	// Method is an MCP method: tools/call, resources/read, prompts/get,
	// completion/complete, one of tasks, resources/list of one service, or, for
	// doors that are not MCP's, sampling/createMessage.
	Method string
	// Name is the tool's or prompt's name, the resource's URI, or the task's id; for
	// resources/list the service that is asked.
	Name string
	// Arguments is a JSON object, or empty. For completion/complete and
	// sampling/createMessage it is the whole params.
	Arguments []byte

	// Credentials are what the door found; empty for none.
	Credentials Credentials
	// Delegation takes the place of credentials and of Client where a service
	// calls on behalf of its caller. Not nil for any such call.
	Delegation []byte
	// Principal is set by the authenticate link.
	Principal Principal

	Client         *busv1.Client
	WantsProgress  bool
	LogLevel       busv1.LogLevel
	InputResponses []byte
	RequestState   []byte
	IdempotencyKey string
	// Stream keeps the answer for a client that may come back for it; nil for
	// none.
	Stream      *edges.Stream
	Traceparent string
	Tracestate  string

	// approved is the held call that a person agreed to; nil for none.
	approved *HeldCall

	// permit is asked right before an instance of the service begins the call, and
	// may refuse; nil does not. Only for calls with an effect: bus.Options.Permit.
	permit func(ctx context.Context, instance string) error

	// Target is set by the validate link: what the call reaches.
	Target catalogue.Target
	// Ran says which instance carried the call out, or was asked to last; set by
	// dispatch, empty where none was.
	Ran bus.Ran
	// Received is when the door had the whole request.
	Received time.Time
	// ID names this run of the chain; set by the audit link. begun says that it
	// is in the audit trail.
	ID    string
	begun bool
	// Replayed says that the answer is that of an earlier call with the same
	// idempotency key; set by the deduplicate link.
	Replayed bool
	// Parent is the ID of the call of a tool that made this one; empty for a
	// client's own.
	Parent string
	// Approval is what a person said to the call; nil when nobody was asked.
	Approval *Approval
	// depth is how many calls of services stand above this one.
	depth uint32
	// payer is what Payer returns; set by the authenticate link.
	payer string
}

// Credentials are what a door knows of who calls.
type Credentials struct {
	// Bearer is an OAuth 2.1 access token.
	Bearer string
	// Address is that of the client's connection, without its port; empty for a
	// client of this machine, over stdio. It proves nothing.
	Address string
}

// digest stands for the token on the bus, which tokens never enter. Nil without
// one.
func (c Credentials) digest() []byte {
	if c.Bearer == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(c.Bearer))
	return sum[:]
}

// Principal is who calls.
type Principal struct {
	Name   string
	Tenant string
	Scopes []string
}

// Anonymous is the principal of an edge without authentication.
var Anonymous = Principal{Name: "anonymous"}

// Answer is how a call ended that did not fail: exactly one member is set.
type Answer struct {
	Result        *busv1.Result
	InputRequired *busv1.InputRequired
	// Task is the task that the call became, or asks about.
	Task *busv1.TaskRecord
	// Disconnect: the call goes on, and its client comes back for the answer.
	Disconnect *busv1.Disconnect
	// Sent is the response as another edge sent it.
	Sent *busv1.Sent
}

// answerOf is the answer of a terminal frame that begins no task.
func answerOf(f *busv1.Frame) *Answer {
	return &Answer{
		Result: f.GetResult(), InputRequired: f.GetInputRequired(),
		Disconnect: f.GetDisconnect(), Sent: f.GetSent(),
	}
}

// OnFrame is given each progress and log frame of a call, in order. It must
// not block.
type OnFrame func(*busv1.Frame)

// Next is the rest of the chain.
type Next func(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error)

// Link is one policy. It refuses a call by returning a *fault.Error without
// calling next.
type Link func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error)
