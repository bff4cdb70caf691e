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

// Handlers return these errors to say what went wrong, and returns the error. The text goes to the
// client, so it has no names of hosts or files. The result depends on what is served:
//
//   - of a tool it is a result with isError, for the model, which may try again with
//     better arguments. _meta says which of these it is: see mcp.MetaFailure.
//   - of a prompt, a resource or a completion it is an error of the protocol, with the
//     reason that docs/reference/errors.md has, and nothing ran.
//
// Any other error is logged here and hidden from the client.

// Errorf is a failure of no particular kind; of a prompt or a resource it is
// invalid_params.
func Errorf(format string, args ...any) error { return fail("", format, args) }

// NotFound: what the call is about is not there. Of a resource it is
// unknown_resource, elsewhere invalid_params.
func NotFound(format string, args ...any) error { return fail(notFound, format, args) }

// Invalid: an argument is wrong in a way that its schema cannot say. field is its name,
// or a JSON Pointer to what is wrong in it.
func Invalid(field, format string, args ...any) error {
	f := fail(fault.InvalidParams, format, args)
	f.field = field
	return f
}

// Conflict: what is to be changed is not as the caller thinks.
func Conflict(format string, args ...any) error { return fail(fault.Conflict, format, args) }

// Forbidden: this caller may not do that. The access file of the edge decides who may call a tool
// at all.
func Forbidden(format string, args ...any) error { return fail(fault.Forbidden, format, args) }

// Busy: it may work later; after says when, 0 if nobody knows. Nothing ran. The error is
// unavailable.
func Busy(after time.Duration, format string, args ...any) error {
	f := fail(fault.Unavailable, format, args)
	f.after = max(after, 0)
	return f
}

// notFound is a kind of failure that is a reason only where a resource is read.
const notFound fault.Reason = "not_found"

// failure is what a handler itself says of a call that failed.
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

// asFailure is what a handler said, or nil.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// failureMeta is what mcp.MetaFailure holds.
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

// fault is the failure of anything else, of which nothing ran.
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

// failureOf is the failure that another tool's result tells.
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
