package service

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Handlers return these errors to say what went wrong. The text goes to the client, so it must not
// contain names of hosts or files. The client receives it differently for tools and for other
// handlers:
//
//   - from a tool, it becomes a result with isError, for the model, which may try again with better
//     arguments. The result's _meta has the kind of failure: see mcp.MetaFailure.
//   - from a prompt, a resource or a completion, it becomes a protocol error with a reason from
//     docs/reference/errors.md, and says that nothing ran.
//
// Any other error is logged here and hidden from the client.

// Errorf returns a failure of no particular kind. From a prompt or a resource it is invalid_params.
func Errorf(format string, args ...any) error { return fail("", format, args) }

// NotFound says that the thing which the call is about does not exist. From a resource it is
// unknown_resource, otherwise invalid_params.
func NotFound(format string, args ...any) error { return fail(notFound, format, args) }

// Invalid says that an argument is wrong in a way that its schema cannot express. field is its
// name, or a JSON Pointer to the wrong part.
func Invalid(field, format string, args ...any) error {
	f := fail(fault.InvalidParams, format, args)
	f.field = field
	return f
}

// Conflict says that the thing to be changed is not in the state that the caller expects.
func Conflict(format string, args ...any) error { return fail(fault.Conflict, format, args) }

// Forbidden says that this caller may not do that. Whether a caller may call a tool at all is
// decided by the edge's access file.
func Forbidden(format string, args ...any) error { return fail(fault.Forbidden, format, args) }

// Busy says that nothing ran, and that the call may succeed after the given time; 0 if that is
// unknown. The client receives the reason unavailable.
func Busy(after time.Duration, format string, args ...any) error {
	f := fail(fault.Unavailable, format, args)
	f.after = max(after, 0)
	return f
}

// notFound is a kind of failure. It is a reason of the protocol only for reads of resources.
const notFound fault.Reason = "not_found"

// failure is a handler's own account of a failed call.
type failure struct {
	reason fault.Reason // empty for none in particular
	text   string
	field  string
	after  time.Duration
}

func fail(reason fault.Reason, format string, args []any) *failure {
	return &failure{reason: reason, text: fmt.Sprintf(format, args...)}
}

// Error is the text for the client.
func (f *failure) Error() string {
	text := f.text
	if f.field != "" {
		text = f.field + ": " + text
	}
	switch s := int64(math.Ceil(f.after.Seconds())); {
	case s == 1:
		text += "; try again in a second"
	case s > 1:
		text += fmt.Sprintf("; try again in %d seconds", s)
	}
	return text
}

// asFailure returns the failure that err wraps; nil for none.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// failureMeta is the value of mcp.MetaFailure.
type failureMeta struct {
	Reason       fault.Reason `json:"reason"`
	Parameter    string       `json:"parameter,omitzero"`
	RetryAfterMS int64        `json:"retryAfterMs,omitzero"`
}

// result is the failure of a tool.
func (f *failure) result() (*busv1.Result, error) {
	r := &Result{Content: []mcp.Content{mcp.Text(f.Error())}, IsError: true}
	if f.reason != "" {
		r.Meta = map[string]any{mcp.MetaFailure: failureMeta{f.reason, f.field, f.after.Milliseconds()}}
	}
	return encodeResult(r)
}

// fault is the failure of any other handler; nothing ran.
func (f *failure) fault(req *busv1.Request) *fault.Error {
	switch {
	case f.reason == notFound && req.Method == mcp.MethodResourcesRead:
		data, _ := marshal(map[string]string{"uri": req.Name})
		return fault.New(fault.UnknownResource, "%s", f.Error()).With(data).Because(f)
	case f.reason == "", f.reason == notFound:
		return fault.New(fault.InvalidParams, "%s", f.Error()).Because(f)
	}
	e := fault.New(f.reason, "%s", f.Error()).Because(f)
	if f.field != "" {
		data, _ := marshal(map[string]string{"parameter": f.field, "detail": f.text})
		e = e.With(data)
	}
	e.RetryAfter = f.after
	return e
}

// failureOf reads the failure from another tool's result.
func failureOf(text string, meta []byte) error {
	var m struct {
		Failure failureMeta `json:"io.github.busbar-mcp/failure"`
	}
	_ = json.Unmarshal(meta, &m) // without it, the failure is of no particular kind
	f := &failure{text: text}
	switch m.Failure.Reason {
	case notFound, fault.InvalidParams, fault.Conflict, fault.Forbidden, fault.Unavailable:
		// The text names the parameter of the other tool, and the time.
		f.reason = m.Failure.Reason
	}
	return f
}
