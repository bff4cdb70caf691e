package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// selfCheck is the call that asks a service whether it takes calls.
const selfCheck = "busbar/check"

// AuditQuery is the method by which the audit service is queried.
const AuditQuery = wire.AuditQuery

// reachable are the methods a service can be called with.
var reachable = map[string]bool{
	mcp.MethodToolsCall: true, mcp.MethodResourcesRead: true, mcp.MethodPromptsGet: true, mcp.MethodComplete: true,
	"sampling/createMessage": true, mcp.MethodResourcesList: true, mcp.MethodPromptsList: true, selfCheck: true, AuditQuery: true,
}

// Options say how a call is made. The zero value is what Call uses.
type Options struct {
	// Stream is for a client that may come back for the rest of the answer at another edge. With a
	// stream, OnFrame receives alive frames too. When ctx ends with cause ErrLeft, the call goes on
	// without this caller.
	Stream Stream
	// OnFrame receives each progress and log frame. It must not block.
	OnFrame func(*busv1.Frame)
	// Permit is called right before an instance may begin a call with Request.AskFirst; nil permits
	// all. If it returns an error, the call ends with it and nothing runs. It may be called again
	// for another instance if the first one did not begin. It may take about 2 s (instances wait 3
	// s), and must end with ctx. For services that cannot ask, it is called before the request is
	// sent, with an empty instance.
	Permit func(ctx context.Context, instance string) error
	// Budget is asked before the result is kept; nil sets no limit.
	Budget Budget
	// Only are the instances that may receive the call; nil for any. If none of them is on the bus,
	// the error is Unavailable.
	Only []string
	// Ran, unless nil, is set to the instance that received the call last.
	Ran *Ran
	// Harmless says that a second run does no harm, because the call has no effect or its service
	// runs an idempotency key once. Such a call is repeated if its answer is lost.
	Harmless bool
}

// Stream keeps the frames of a call for a client that may come back for them. Its calls run one
// after the other.
type Stream interface {
	// Next prepares the request of the next call.
	Next(service string, req *busv1.Request)
	// Took records a received frame: its subject, number and size in bytes.
	Took(subject string, seq uint32, size int)
	// MayLeave reports whether a service may close the client's connection: a disconnect frame ends
	// the call for this caller.
	MayLeave() bool
}

// ErrLeft is the cause of a context whose caller leaves the call to the followers of its stream.
var ErrLeft = errors.New("left to the stream")

// errNoInstance is the cause of a fault if no instance takes the call.
var errNoInstance = errors.New("nobody serves it")

// Gateway is the name under which edges serve other services: a service can call any tool there, on
// behalf of its own caller (busv1.Delegation). It is not in the registry, and no service may have
// its name.
const Gateway = subject.Gateway

// ValidName checks the name of a service, which becomes one token of subjects and part of keys: 1
// to 64 characters of a-z, A-Z, 0-9, - and _, except the names that the bus uses itself.
func ValidName(name string) error { return subject.ValidName(name) }

// Budget limits the memory that results of calls use until somebody has read them.
type Budget interface {
	// Take is called when n bytes of a result have arrived. A *fault.Error ends the call. The error
	// must say that the call ran, because it has a result.
	Take(n int) error
}

// Ran says which instance a call was given to, and the version of its code. Either is empty while
// unknown.
type Ran struct {
	Instance, Version string
	// Answered says that the instance began the call with this caller's permit and said how it
	// ended: an error then comes from the handler, not from the bus.
	Answered bool
}

// Call sends req to one instance of the service and waits for its answer. onFrame receives each
// progress and log frame and must not block; nil ignores them. Call returns the terminal frame: a
// result, input_required or task. An error frame, and every failure on the way, is returned as
// *fault.Error.
//
// Call sets the id of req, unless it already has an unused one. The call ends at the deadline of
// ctx or of req, whichever is first; without either, after DefaultTimeout. If ctx ends first, the
// instance that runs the call is told to stop.
func (c *Caller) Call(ctx context.Context, service string, req *busv1.Request, onFrame func(*busv1.Frame)) (*busv1.Frame, error) {
	return c.CallWith(ctx, service, req, Options{OnFrame: onFrame})
}

// CallWith is Call with options.
//
// If an instance is lost, full or too late before it has begun the call, the call is repeated at
// another one, within the same deadline. A call with Request.AskFirst has not begun as long as this
// caller did not permit it; for other calls the instance says so. The id of a repeated call ends
// with -2, -3 and so on.
func (c *Caller) CallWith(ctx context.Context, service string, req *busv1.Request, o Options) (*busv1.Frame, error) {
	if !subject.Token(service) {
		return nil, fault.New(fault.Unavailable, "no service can have the name %.64q", service)
	}
	if !reachable[req.Method] {
		return nil, fault.New(fault.MethodNotFound, "no service serves %s", req.Method)
	}
	deadline, bounded := ctx.Deadline()
	if req.DeadlineUnixNano != 0 {
		if own := time.Unix(0, int64(req.DeadlineUnixNano)); !bounded || own.Before(deadline) {
			deadline, bounded = own, true
		}
	}
	if !bounded {
		deadline = time.Now().Add(DefaultTimeout)
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, fault.New(fault.Cancelled, "cancelled before it was sent").Ran(fault.No)
	}
	if time.Until(deadline) < flow.MinRemaining {
		return nil, fault.New(fault.DeadlineExceeded, "less than %v left; nothing was started", flow.MinRemaining).Ran(fault.No)
	}
	if req.Id == "" {
		req.Id = NewCallID()
	}
	id := req.Id
	ctx, span := sent(ctx, service, req)
	a := &attempt{caller: c, service: service, options: o, deadline: deadline, began: time.Now()}
	a.state.Terms = flow.Terms{
		Harmless: o.Harmless, Keyed: req.IdempotencyKey != "", Only: o.Only != nil, Edge: c.service == "", Deadline: deadline.Sub(a.began),
	}
	for n := 1; ; n++ {
		frame, err := a.run(ctx, req)
		if err == nil {
			answered(span, o.Ran, n, nil)
			return frame, nil
		}
		state, do := flow.Step(a.state, flow.Event{Kind: flow.Failed, Now: a.now(), Reason: err.Reason, Executed: err.Executed, Known: c.conn.members.known(service)})
		if state.Executed != err.Executed {
			err = err.Ran(state.Executed)
		}
		if do&flow.Again == 0 || !pause(ctx, state.Pause) {
			answered(span, o.Ran, n, err)
			return nil, err
		}
		next := &attempt{caller: c, service: service, options: o, deadline: deadline, began: a.began, state: state, full: err.Reason == fault.Overloaded}
		if do&flow.Afresh == 0 {
			next.tried = a.tried
		}
		a = next
		req.Id = id + attempted + strconv.Itoa(n+1)
	}
}

// attempted stands before the attempt number in a request's id; the first attempt has none.
const attempted = "-"

// CallOf returns the id of the call from the id of one of its attempts.
func CallOf(request string) string {
	call, _, _ := strings.Cut(request, attempted)
	return call
}

// Check asks the service whether it takes calls.
func (c *Caller) Check(ctx context.Context, service string) error {
	_, err := c.Call(ctx, service, &busv1.Request{Method: selfCheck}, nil)
	return err
}

// Unbegun reports whether an instance's error says that it did not begin the call, for a reason
// that lets the caller try another instance.
func Unbegun(f *fault.Error) bool {
	switch f.Reason {
	case fault.Overloaded, fault.DeadlineExceeded, fault.Cancelled:
		return f.Executed == fault.No
	}
	return false
}

// pause waits before another attempt; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
