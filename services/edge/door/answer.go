package door

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Accept says which types of answer a client accepts.
type Accept struct {
	JSON, Events bool
	// EventsFirst is set if the client names events first.
	EventsFirst bool
}

// Accepts reads the Accept headers; a client without any accepts everything.
func Accepts(h http.Header) Accept {
	values := h["Accept"]
	if len(values) == 0 {
		return Accept{JSON: true, Events: true}
	}
	var a Accept
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "*/*":
				a.JSON, a.Events = true, true
			case "application/json", "application/*":
				a.JSON = true
			case "text/event-stream", "text/*":
				a.EventsFirst = a.EventsFirst || !a.JSON
				a.Events = true
			}
		}
	}
	return a
}

// Answer answers with a complete body.
func Answer(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	out := paced{w, http.NewResponseController(w)}
	w.WriteHeader(status)
	_, _ = out.Write(body)
}

// TimeWrite gives a client its time for the next write; after that it counts as gone. The
// server's own deadline counts from the request, and a call may take longer.
func TimeWrite(c timed) { _ = c.SetWriteDeadline(time.Now().Add(writeTime)) }

// timed is a writer with deadlines: a connection, or the *http.ResponseController of an
// answer.
type timed interface{ SetWriteDeadline(time.Time) error }

// Explain puts into headers why a request is refused with a status: the reason, whether
// the call ran, and what to do about it (docs/reference/errors.md).
func Explain(h http.Header, status int, f *fault.Error) {
	h.Set("Busbar-Reason", string(f.Reason))
	h.Set("Busbar-Executed", string(f.Executed))
	Challenge(h, status, f)
	retryAfter(h, status, f)
	if status == http.StatusAccepted {
		var held struct {
			Approval    string `json:"approval,omitzero"`
			Elicitation string `json:"elicitation,omitzero"`
		}
		switch err := json.Unmarshal(f.Data, &held); {
		case err == nil && held.Approval != "":
			h.Set("Location", "/approvals/"+held.Approval)
		case err == nil && held.Elicitation != "":
			h.Set("Location", "/elicitations/"+held.Elicitation)
		}
	}
}

// retryAfter says when to come back, for the statuses for which HTTP has a header.
func retryAfter(h http.Header, status int, f *fault.Error) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds), 10))
	}
}

// Challenge says how to show better credentials: the challenges of the error, and at
// least the scheme with a 401 (RFC 9110, 11.6.1).
func Challenge(h http.Header, status int, err error) {
	var c gateway.Challenge
	switch {
	case errors.As(err, &c):
		h["Www-Authenticate"] = c
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	}
}
