// Package fault is the one error that may cross the bus and reach a client:
// what went wrong, whether the call ran, and what to do next.
//
// Its message goes to the client. Put no stack, token, host name or file name
// into it; wrap the cause instead, which stays in the process that saw it.
package fault

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Executed says whether a failed call had its effect.
type Executed string

const (
	// No means nothing ran: calling again is safe.
	No Executed = "no"
	// Unknown means it may have run.
	Unknown Executed = "unknown"
	// Yes means it ran.
	Yes Executed = "yes"
)

// Reason names a class of failure. The values are part of the interface
// (error.data.reason); docs/reference/errors.md lists what each door makes of them.
type Reason string

// Reasons for which nothing ran.
const (
	ParseError         Reason = "parse_error"
	InvalidRequest     Reason = "invalid_request"
	TooLarge           Reason = "too_large"
	HeaderMismatch     Reason = "header_mismatch"
	UnsupportedVersion Reason = "unsupported_version"
	MissingCapability  Reason = "missing_capability"
	MethodNotFound     Reason = "method_not_found"
	InvalidParams      Reason = "invalid_params"
	UnknownTool        Reason = "unknown_tool"
	UnknownPrompt      Reason = "unknown_prompt"
	UnknownResource    Reason = "unknown_resource"
	UnknownTask        Reason = "unknown_task"
	UnknownSession     Reason = "unknown_session"
	UnknownToolset     Reason = "unknown_toolset"
	Unauthenticated    Reason = "unauthenticated"
	Forbidden          Reason = "forbidden"
	Conflict           Reason = "conflict"
	// ApprovalRequired: the call is held until a person agrees to it.
	ApprovalRequired Reason = "approval_required"
	UnknownApproval  Reason = "unknown_approval"
	// InputRequired: the tool asks its caller, whose answer the call is held for.
	InputRequired      Reason = "input_required"
	UnknownElicitation Reason = "unknown_elicitation"
	RateLimited        Reason = "rate_limited"
	// Overloaded: the service has no free slot.
	Overloaded Reason = "overloaded"
	// Unavailable: no instance of the service is there, or the bus is away.
	Unavailable Reason = "unavailable"
)

// Reasons for which the call may have run.
const (
	DeadlineExceeded Reason = "deadline_exceeded"
	// PeerLost: the instance that took the call stopped giving signs of life.
	PeerLost  Reason = "peer_lost"
	Cancelled Reason = "cancelled"
	// HistoryLost: what a client came back for is not kept, or no longer.
	HistoryLost Reason = "history_lost"
	// ResultTooLarge: the call ran, but its result exceeds the limit.
	ResultTooLarge Reason = "result_too_large"
	Internal       Reason = "internal"
)

// executedBy is what each reason says about execution unless the place that
// makes the error knows better. It names every reason there is.
var executedBy = map[Reason]Executed{
	ParseError: No, InvalidRequest: No, TooLarge: No, HeaderMismatch: No, UnsupportedVersion: No, MissingCapability: No,
	MethodNotFound: No, InvalidParams: No, UnknownTool: No, UnknownPrompt: No, UnknownResource: No, UnknownTask: No,
	UnknownSession: No, UnknownToolset: No, Unauthenticated: No, Forbidden: No, Conflict: No, ApprovalRequired: No, UnknownApproval: No,
	InputRequired: No, UnknownElicitation: No,
	RateLimited: No, Overloaded: No, Unavailable: No,
	DeadlineExceeded: Unknown, PeerLost: Unknown, Cancelled: Unknown, HistoryLost: Unknown, Internal: Unknown,
	ResultTooLarge: Yes,
}

// Known reports whether a reason is one of those above.
func (r Reason) Known() bool { return executedBy[r] != "" }

// Error is a failure as its client may see it.
type Error struct {
	Reason   Reason
	Executed Executed
	// Message is for people: what is wrong and, where possible, what to do.
	Message string
	// Data is a JSON object with further facts for the client; nil for none.
	Data []byte
	// RetryAfter is how long to wait before calling again; 0 is unknown.
	RetryAfter time.Duration
	// Next is what to do about it, where that is not what a door says of the reason. A
	// service that calls a tool is told it, in the words of its client's door.
	Next string

	cause error
}

// New makes an error with the reason's usual meaning for execution.
func New(reason Reason, format string, args ...any) *Error {
	executed := executedBy[reason]
	if executed == "" {
		executed = Unknown // nobody knows what it means
	}
	return &Error{Reason: reason, Executed: executed, Message: fmt.Sprintf(format, args...)}
}

// Error implements error: the message, and the cause for logs.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Because returns e with a cause, which is logged but never sent.
func (e *Error) Because(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// Ran returns e with another answer to whether the call ran.
func (e *Error) Ran(x Executed) *Error {
	c := *e
	c.Executed = x
	return &c
}

// With returns e with a JSON object of further facts.
func (e *Error) With(data []byte) *Error {
	c := *e
	c.Data = data
	return &c
}

// Toward returns e with what to do about it.
func (e *Error) Toward(next string) *Error {
	c := *e
	c.Next = next
	return &c
}

// From returns the Error in err's chain, or an Internal one that hides err.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return New(Internal, "internal error").Because(err)
}

// Is reports whether err carries the reason.
func Is(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

// Clip shortens a peer's text for a message: to 200 bytes, cut between
// characters.
func Clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
