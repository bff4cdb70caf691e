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

// Call is a client's request as its door describes it. Neither the chain nor the door changes it
// after it is given to Do, so the same call can be made again. Byte slices are the client's own.
type Call struct {
	// Door names the front door, for audit and metrics.
	Door string
	// Method is an MCP method: tools/call, resources/read, prompts/get, completion/complete, one
	// of the tasks methods, or resources/list or prompts/list of one service. For doors other
	// than MCP's it can also be sampling/createMessage or AuditQuery.
	Method string
	// Name is the name of the tool or prompt, the URI of the resource, or the id of the task. For
	// lists it is the service that is asked.
	Name string
	// Arguments is a JSON object, or empty. For completion/complete and sampling/createMessage it
	// holds the whole params.
	Arguments []byte

	// Credentials are the credentials that the door found; empty for none.
	Credentials Credentials
	// Who, unless nil, replaces Credentials: the door itself identifies the caller, or knows
	// why the caller is refused.
	Who func() (Principal, error)
	// Delegation replaces Credentials and Client if a service calls on behalf of its caller. It
	// is not nil for any such call.
	Delegation []byte
	// Service is the service that calls with a delegation, by its name on the bus.
	Service string

	Client         *busv1.Client
	WantsProgress  bool
	LogLevel       busv1.LogLevel
	InputResponses []byte
	RequestState   []byte
	IdempotencyKey string
	// Stream keeps the answer for a client that may come back for it; nil for none.
	Stream      *edges.Stream
	Traceparent string
	Tracestate  string
	// Meta is the JSON object that the client put into _meta for the service; nil for none.
	Meta []byte
	// Protocol is the version of MCP that the client speaks; empty at other doors.
	Protocol string

	// AskLater: the person that has to approve or answer is not asked during the call. The call
	// is held, and the person decides later; see Elicitations. It is for doors at which a call
	// has a single answer.
	AskLater bool

	// Received is when the door had the whole request; zero means the moment of Do.
	Received time.Time
}

// Answer is the end of a call that did not fail: exactly one of Result, InputRequired, Task,
// Disconnect and Sent is set.
type Answer struct {
	Result        *busv1.Result
	InputRequired *busv1.InputRequired
	// Task is the task that the call became, or that it asks about.
	Task *busv1.TaskRecord
	// Disconnect: the call goes on, and its client comes back for the answer.
	Disconnect *busv1.Disconnect
	// Sent is the response as another edge sent it.
	Sent *busv1.Sent

	// Tool is the tool of a tools/call; nil for any other method.
	Tool *catalogue.Tool
	// Replayed says that this is the answer to an earlier call with the same idempotency key.
	Replayed bool
}

// OnFrame is given each progress and log frame of a call, in order. It must not block.
type OnFrame func(*busv1.Frame)

// asked passes on only the frames that the caller asked for. Services that use the SDK send no
// others, but other services may.
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

// View is a call as policies and auditors see it: the request of the door, and the findings of
// the chain so far. They read it and do not change it.
type View struct {
	*Call
	// ID names this run of the chain.
	ID string
	// Principal is the caller. Account is the account that the call's use of shared room counts
	// for; see Account. Both are empty before the link authenticate.
	Principal Principal
	Account   string
	// Parent is the ID of the tool call that made this one; empty for a client's own call.
	Parent string
	// Target is the target of the call; empty before the link validate.
	Target catalogue.Target
	// Approval is a person's answer to the call. It is nil if nobody was asked, unless the policy
	// waived the approval.
	Approval *Approval
	// Ran says which instance carried the call out, or was asked last; empty if none was asked.
	Ran bus.Ran
}

// run is a call on its way through the chain.
type run struct {
	View
	// said is a copy of the door's call, and View.Call points to it. Links replace parts of it
	// with what the service is to get.
	said    Call
	onFrame OnFrame

	// demand says who must approve the call.
	demand Demand
	// consent is what the link approve keeps in the state, of the request and then of the answer;
	// nil for nothing.
	consent *consent
	// missing says why there is no target; nil if there is one.
	missing error
	// seen says that the caller may know of the target.
	seen bool
	// shown is the name that the client used, if a toolset shows the tool or prompt under another
	// name than its own; empty otherwise.
	shown string
	// begun says that the beginning of the call was recorded in the audit trail, as far as this
	// edge knows: another edge may have made the call.
	begun bool
	// depth is how many calls of services are above this one.
	depth uint32
	// origin is the door at which the client of a delegation called; empty for the doors of MCP.
	origin string
	// found says that the call has passed its toolset, and has the names behind it.
	found bool
	// approved is the held call that a person approved; nil for none. held says that this call was
	// held, under an id of its own.
	approved *store.HeldCall
	held     bool
	// keyRead says that the record of the idempotency key was read: from then on errors speak of
	// the key. unrun says that this call failed before it ran.
	keyRead, unrun bool
	// permit is asked right before an instance of the service begins a call that may have an
	// effect, and may refuse it; nil never refuses. See bus.Options.Permit.
	permit Permit
	// result is the room that the result of the call takes.
	result budget.Result
}
