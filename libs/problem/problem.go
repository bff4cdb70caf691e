// Package problem has what a program refuses over HTTP as problem details (RFC 9457),
// with what every error of Busbar says: its reason, whether the call ran, and the way on.
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

// Of is an error as problem details. next says what to do, in the words of the door;
// empty where the message says it.
func Of(status int, f *fault.Error, next string) Details {
	return Details{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Reason: f.Reason, Executed: f.Executed, Next: next, RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data,
	}
}

// JSON is what is sent of them.
func (d Details) JSON() []byte {
	b, err := json.Marshal(d)
	if err != nil { // not UTF-8: a peer's text
		d.Detail, d.Data = "internal error", nil
		b, _ = json.Marshal(d)
	}
	return b
}

// Write answers with problem details, and says in headers too why, and whether it ran.
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

// Nothing is the error of a path at which nothing is.
func Nothing() *fault.Error {
	return fault.New(fault.MethodNotFound, "nothing is at this path")
}

// NotTaken is the error of a method that a path does not have; allow says which it has.
func NotTaken(method, allow string) *fault.Error {
	return fault.New(fault.MethodNotFound, "%s is not what this path takes: use %s", fault.Clip(method), allow)
}

// NotFound is Nothing as a problem.
func NotFound(next string) Details { return Of(http.StatusNotFound, Nothing(), next) }

// NotAllowed is NotTaken as a problem.
func NotAllowed(method, allow, next string) Details {
	return Of(http.StatusMethodNotAllowed, NotTaken(method, allow), next)
}

// methods are those that a path may have, in the order of an Allow header.
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
}

// Refuse has what a mux does not take, paths at which nothing is and methods that a path
// does not have, refused as problems. The mux has no pattern "/" of its own. What it
// takes is routed as before, once.
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
