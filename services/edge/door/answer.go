package door

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Accept is what a client takes as an answer.
type Accept struct {
	JSON, Events bool
	// EventsFirst: it would rather have events, which it names first.
	EventsFirst bool
}

// Accepts reads the Accept headers; a client without any takes everything.
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

// Answer answers with a whole body.
func Answer(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	out := paced{w, http.NewResponseController(w)}
	w.WriteHeader(status)
	_, _ = out.Write(body)
}

// TimeWrite gives a client its time for the next write, after which it counts as
// gone. The server's own deadline counts from the request, and a call may take
// longer.
func TimeWrite(c *http.ResponseController) { _ = c.SetWriteDeadline(time.Now().Add(writeTime)) }
