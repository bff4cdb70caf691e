// Package problem writes HTTP errors as problem details (RFC 9457). They contain what every error
// of Busbar has: its reason, whether the call ran, and what to do next. Start reading at Write and
// Refuse.
package problem

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// ContentType is the media type of problem details.
const ContentType = "application/problem+json"

// Details are problem details.
type Details struct {
	Type         string         `json:"type"`
	Title        string         `json:"title"`
	Status       int            `json:"status"`
	Detail       string         `json:"detail"`
	Reason       fault.Reason   `json:"reason"`
	Executed     fault.Executed `json:"executed"`
	Next         string         `json:"next,omitzero"`
	RetryAfterMS int64          `json:"retry_after_ms,omitzero"`
	Data         jsontext.Value `json:"data,omitzero"`
}

// Of converts an error to problem details. next is the door's advice on what to do; empty if the
// message already says it.
func Of(status int, f *fault.Error, next string) Details {
	return Details{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Reason: f.Reason, Executed: f.Executed, Next: next, RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data,
	}
}

// JSON encodes the details for a response.
func (d Details) JSON() []byte {
	b, err := json.Marshal(d)
	if err != nil { // not UTF-8: a peer's text
		d.Detail, d.Data = "internal error", nil
		b, _ = json.Marshal(d)
	}
	return b
}

// Write answers with problem details, and repeats the reason and whether the call ran in headers.
func Write(w http.ResponseWriter, d Details) {
	b, h := d.JSON(), w.Header()
	h.Set("Busbar-Reason", string(d.Reason))
	h.Set("Busbar-Executed", string(d.Executed))
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(d.Status)
	_, _ = w.Write(b)
}

// Nothing is the error for an unknown path.
func Nothing() *fault.Error {
	return fault.New(fault.MethodNotFound, "nothing is at this path")
}

// NotTaken is the error for a method that a path does not support; allow lists the supported ones.
func NotTaken(method, allow string) *fault.Error {
	return fault.New(fault.MethodNotFound, "%s is not what this path takes: use %s", fault.Clip(method), allow)
}

// NotFound returns the details of Nothing.
func NotFound(next string) Details { return Of(http.StatusNotFound, Nothing(), next) }

// NotAllowed returns the details of NotTaken.
func NotAllowed(method, allow, next string) Details {
	return Of(http.StatusMethodNotAllowed, NotTaken(method, allow), next)
}

// methods are the methods that a path may support, in the order of an Allow header.
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
}

// Refuse makes a mux answer unknown paths and unsupported methods with problem details. The mux
// must not have a pattern "/" of its own. All other requests are routed as before, once.
func Refuse(mux *http.ServeMux, next string) {
	const rest = "/"
	mux.HandleFunc(rest, func(w http.ResponseWriter, r *http.Request) {
		var allow []string
		for _, method := range methods {
			other := r.WithContext(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != rest {
				allow = append(allow, method)
			}
		}
		if len(allow) == 0 {
			Write(w, NotFound(next))
			return
		}
		w.Header().Set("Allow", strings.Join(allow, ", "))
		Write(w, NotAllowed(r.Method, strings.Join(allow, ", "), next))
	})
}
