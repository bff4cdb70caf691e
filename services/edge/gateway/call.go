package gateway

import (
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Call is what a door says of a client's request. Nothing changes it, neither
// the chain nor the door once it is given to Do, so the same call can be made
// again. Byte slices are the client's own.
type Call struct {
	// Door names the front door, for audit and metrics.
	Door string
	// Method is an MCP method: tools/call, resources/read, prompts/get,
	// completion/complete, one of tasks, resources/list or prompts/list of one
	// service, or, for doors that are not MCP's, sampling/createMessage and AuditQuery.
	Method string
	// Name is the tool's or prompt's name, the resource's URI, or the task's id; for
	// lists the service that is asked.
	Name string
	// Arguments is a JSON object, or empty. For completion/complete and
	// sampling/createMessage it is the whole params.
	Arguments []byte

	// Credentials are what the door found; empty for none.
	Credentials Credentials
	// Who takes the place of Credentials where the door itself can tell who calls,
	// or why they may not; nil for any other call.
	Who func() (Principal, error)
	// Delegation takes the place of Credentials and of Client where a service
	// calls on behalf of its caller. Not nil for any such call.
	Delegation []byte
	// Service is who calls with a delegation, as the bus knows it.
	Service string

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
	// Meta is what the client put into _meta for the service, a JSON object; nil for none.
	Meta []byte
	// Protocol is the version of MCP that the client speaks; empty at other doors.
	Protocol string

	// AskLater: whose word the call needs is not asked on its way, but later, by what is
	// held for them; see Elicitations. For doors where a call has one answer.
	AskLater bool

	// Received is when the door had the whole request; zero for the moment of Do.
	Received time.Time
}

// Answer is how a call ended that did not fail: exactly one of Result,
// InputRequired, Task, Disconnect and Sent is set.
type Answer struct {
	Result        *busv1.Result
	InputRequired *busv1.InputRequired
	// Task is the task that the call became, or asks about.
	Task *busv1.TaskRecord
	// Disconnect: the call goes on, and its client comes back for the answer.
	Disconnect *busv1.Disconnect
	// Sent is the response as another edge sent it.
	Sent *busv1.Sent

	// Tool is what was called; nil but for tools/call.
	Tool *catalogue.Tool
	// Replayed says that the answer is the one to an earlier call with the same
	// idempotency key.
	Replayed bool
}

// OnFrame is given each progress and log frame of a call, in order. It must
// not block.
type OnFrame func(*busv1.Frame)

// asked passes on what the caller asked to hear of. Services that use the SDK say no more;
// another one may.
func (c *Call) asked(onFrame OnFrame) OnFrame {
	if onFrame == nil {
		return nil
	}
	return func(f *busv1.Frame) {
		l := f.GetLog()
		if l != nil && (c.LogLevel == 0 || l.Level < c.LogLevel) || f.GetProgress() != nil && !c.WantsProgress {
			return
		}
		onFrame(f)
	}
}

// View is a call as policies and auditors see it: what the door said, and what
// the chain has found out so far. It is theirs to read, not to change.
type View struct {
	*Call
	// ID names this run of the chain.
	ID string
	// Principal is who calls, and Account whose use of shared room the call counts
	// for; see Account. Empty before the link authenticate.
	Principal Principal
	Account   string
	// Parent is the ID of the call of a tool that made this one; empty for a
	// client's own.
	Parent string
	// Target is what the call reaches; empty before the link validate.
	Target catalogue.Target
	// Approval is what a person said to the call; nil when nobody was asked, unless
	// the policy waived that.
	Approval *Approval
	// Ran says which instance carried the call out, or was asked to last; empty
	// where none was.
	Ran bus.Ran
}

// run is a call on its way through the chain.
type run struct {
	View
	// said is what View.Call points to: a copy of the door's call, in which links
	// put what the service is to get in place of what the client said.
	said    Call
	onFrame OnFrame

	// demand is whose word the call needs.
	demand Demand
	// ofApproval says that RequestState is of the link approve: that of the client, or
	// that of the answer.
	ofApproval bool
	// missing says why there is no target; nil where there is one.
	missing error
	// seen says that its caller may know of the target.
	seen bool
	// shown is the name that the client said, where a toolset shows another one than the
	// tool's or prompt's own; empty elsewhere.
	shown string
	// begun says that the beginning of the call was recorded in the audit trail, as far as
	// this edge knows: another one may have made it.
	begun bool
	// depth is how many calls of services stand above this one.
	depth uint32
	// origin is the door at which the client of a delegation called; empty for those of MCP.
	origin string
	// found says that the call has been through its toolset, and has the names behind it.
	found bool
	// approved is the held call that a person agreed to; nil for none.
	approved *store.HeldCall
	// keyRead says that the record of the idempotency key was asked for: errors speak of
	// the key from then on. unrun says that this call failed before it ran.
	keyRead, unrun bool
	// permit is asked right before an instance of the service begins a call that
	// may have an effect, and may refuse; nil does not. See bus.Options.Permit.
	permit Permit
	// result is the room of the call's result.
	result budget.Result
}
