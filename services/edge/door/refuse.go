package door

import (
	"errors"
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/problem"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// refused is an error with an HTTP status of its own: 405, 406 or 415.
type refused struct {
	error
	status int
}

// Unwrap returns the error.
func (r refused) Unwrap() error { return r.error }

// NotAllowed refuses a method that a path does not have, and puts the path's methods into
// a header.
func NotAllowed(w http.ResponseWriter, r *http.Request, methods ...string) error {
	allow := strings.Join(methods, ", ")
	w.Header().Set("Allow", allow)
	return refused{problem.NotTaken(r.Method, allow), http.StatusMethodNotAllowed}
}

// NotAcceptable refuses a client that does not accept the type of the answer.
func NotAcceptable(types string) error {
	return refused{fault.New(fault.InvalidRequest, "the answer would be %s, which the Accept header does not take", types), http.StatusNotAcceptable}
}

// Status is the HTTP status of an error, at doors that are not MCP's.
func Status(err error) int {
	return statusOf(err, forms.ForReason(fault.From(err).Reason).HTTP)
}

// statusOf is the error's own status, if it has one, and otherwise the usual one.
func statusOf(err error, usual int) int {
	var own refused
	if errors.As(err, &own) {
		return own.status
	}
	return usual
}

// Problem is an error as problem details.
func Problem(err error) problem.Details {
	f := fault.From(err)
	return problem.Of(Status(err), f, forms.Next(f, forms.HTTP))
}

// RefuseProblem answers with an error as problem details, and puts it into headers too.
func RefuseProblem(w http.ResponseWriter, err error) {
	d := Problem(err)
	Explain(w.Header(), d.Status, fault.From(err))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	Answer(w, d.Status, problem.ContentType, d.JSON())
}

// Refuse answers an MCP request with an error. m is the part of its message that is
// known, nil for nothing.
func Refuse(w http.ResponseWriter, m *mcp.Message, version string, err error) {
	status, body := protocol.ErrorMessage(m, version, err)
	RefuseWith(w, status, body, err)
}

// RefuseWith answers with an error that is already marshalled.
func RefuseWith(w http.ResponseWriter, status int, body []byte, err error) {
	status = statusOf(err, status)
	Challenge(w.Header(), status, err)
	retryAfter(w.Header(), status, fault.From(err))
	Answer(w, status, "application/json", body)
}
