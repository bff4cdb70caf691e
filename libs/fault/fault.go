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

// The text of each reason is in docs/reference/errors.md: its first sentence in the table, the
// others below it.

// Reasons for which nothing ran.
const (
	// ParseError: not JSON: syntax, UTF-8, or a member that appears twice.
	ParseError Reason = "parse_error"
	// InvalidRequest: not a message of the protocol, or nested too deep.
	InvalidRequest Reason = "invalid_request"
	// TooLarge: a limit of size or count is exceeded.
	TooLarge Reason = "too_large"
	// HeaderMismatch: headers and body differ, or a header is missing or invalid.
	HeaderMismatch Reason = "header_mismatch"
	// UnsupportedVersion: unknown version of the protocol. `data.supported` lists the known ones, and
	// `data.requested` repeats the client's.
	UnsupportedVersion Reason = "unsupported_version"
	// MissingCapability: the client lacks a capability. `data.requiredCapabilities` names it.
	MissingCapability Reason = "missing_capability"
	// MethodNotFound: no such method.
	MethodNotFound Reason = "method_not_found"
	// InvalidParams: arguments do not match the schema.
	InvalidParams Reason = "invalid_params"
	// UnknownTool: no such tool.
	UnknownTool Reason = "unknown_tool"
	// UnknownPrompt: no such prompt.
	UnknownPrompt Reason = "unknown_prompt"
	// UnknownResource: no such resource, skill or directory. `data.uri` repeats the URI.
	UnknownResource Reason = "unknown_resource"
	// UnknownTask: no such task, or it has expired, or it belongs to another caller.
	UnknownTask Reason = "unknown_task"
	// UnknownSession: no such session. Send `initialize` again; over HTTP with SSE, open `/sse` again.
	UnknownSession Reason = "unknown_session"
	// UnknownToolset: no such toolset. The message names the toolsets that the caller may use.
	UnknownToolset Reason = "unknown_toolset"
	// Unauthenticated: credentials are missing or invalid.
	Unauthenticated Reason = "unauthenticated"
	// Forbidden: the caller may not do this. Also: an Origin or Host that may not call, or other
	// credentials than those that opened the SSE stream.
	Forbidden Reason = "forbidden"
	// Conflict: another call or another change is in the way. An idempotency key was used for another
	// call, or a call with it still runs (`retryAfterMs`, `unknown`). An approval was used already
	// (`unknown`), or its tool has changed since. The resource or prompt has another version than
	// expected, or exists already: `data.version`, or `data.uri` and `data.revision`, say which it has.
	Conflict Reason = "conflict"
	// ApprovalRequired: the call is held until a person agrees. `POST /approvals/{approval}` or `busbar
	// approve` decides on `data.approval`, until `data.expires`.
	ApprovalRequired Reason = "approval_required"
	// UnknownApproval: no such approval, or it is over, or another principal's. `unknown` if it was
	// decided on, because the call may have run then.
	UnknownApproval Reason = "unknown_approval"
	// InputRequired: the tool asks its caller, at doors other than MCP. `data.requests` has the questions,
	// until `data.expires`.
	InputRequired Reason = "input_required"
	// UnknownElicitation: no such question, or it is over, or another principal's. `unknown` if it was
	// answered.
	UnknownElicitation Reason = "unknown_elicitation"
	// RateLimited: a limit of calls, sessions or tasks is reached.
	RateLimited Reason = "rate_limited"
	// Overloaded: no free slot, or no room for another large result. At the service or at the edge. Also:
	// too many messages wait for an SSE stream. `yes` if a result came for which the edge had no room.
	Overloaded Reason = "overloaded"
	// Unavailable: the service, or something that it needs, is away. No instance of the service runs; or
	// the bus does not answer, so that the edge does not know what services offer (`retryAfterMs`); or the
	// bus, the service's database or its provider is away (`unknown` or `yes` if it may have run). Also: no
	// model is configured. Also if the audit trail cannot be written: then no call with an effect starts.
	// If it fails while a call runs, `executed` is `yes`: the answer is withheld, and the call must not be
	// repeated.
	Unavailable Reason = "unavailable"
)

// Reasons for which the call may have run.
const (
	// DeadlineExceeded: the call did not end in time. `no` if there was too little time left to start, or
	// no instance had begun a call with an effect.
	DeadlineExceeded Reason = "deadline_exceeded"
	// PeerLost: the instance that took the call gives no sign of life. `no` if none of up to three
	// instances had begun a call with an effect. Of a task: five instances began a run and were lost.
	PeerLost Reason = "peer_lost"
	// Cancelled: the call was cancelled. `no` if a call with an effect had not begun.
	Cancelled Reason = "cancelled"
	// HistoryLost: the answer in `Last-Event-ID` is not kept, or not for this session.
	HistoryLost Reason = "history_lost"
	// ResultTooLarge: the call ran, but its result exceeds the limit. Of a result 16 MiB, of a task about
	// 1 MiB, of a batch that is answered with one value 32 MiB together. Calls of the batch that had not
	// begun then, or whose results would probably not fit, are `no`.
	ResultTooLarge Reason = "result_too_large"
	// Internal: a defect. The log of the service names the call. Also: a service's answer is malformed, or
	// has a reason that is not in this table or that only edges give; the log of the edge names it.
	Internal Reason = "internal"
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
