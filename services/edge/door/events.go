package door

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// Variables for tests, which have less time; see SetTimes.
var (
	// writeTime is how long one write may take before the client counts as gone.
	writeTime = 10 * time.Second
	// keepAlive is how often a stream gets a comment, so that nothing on the way
	// takes it for dead.
	keepAlive = 15 * time.Second
)

// Events is a stream of server-sent events: a queue, which Run writes (HTML,
// Server-sent events).
type Events struct {
	*queue
	w       http.ResponseWriter
	control *http.ResponseController
}

// NewEvents makes a stream of the answer to a request.
func NewEvents(w http.ResponseWriter) *Events {
	return &Events{queue: newQueue(), w: w, control: http.NewResponseController(w)}
}

// Run writes first, nil for nothing, and then what is sent, until the stream
// ends, ctx does or the client is gone.
func (s *Events) Run(ctx context.Context, first []byte) {
	defer s.leave()
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	TimeWrite(s.control)
	s.w.WriteHeader(http.StatusOK) // not by the first Flush, which passes by what wraps the writer
	next := [][]byte{first}
	for s.write(next) && s.control.Flush() == nil {
		s.wrote()
		select {
		case <-s.more:
			var ended bool
			if next, ended = s.take(); ended {
				s.write(next) // and its deadline is for the end that net/http writes
				return
			}
		case <-idle.C:
			next = [][]byte{[]byte(":\n\n")}
		case <-ctx.Done():
			return
		}
	}
}

// write writes within its time; false when the client is gone.
func (s *Events) write(messages [][]byte) bool {
	out := paced{s.w, s.control}
	for _, m := range messages {
		if _, err := out.Write(m); err != nil {
			return false
		}
	}
	TimeWrite(s.control)
	return true
}

// Event makes a server-sent event of a name and a single line.
func Event(name string, data []byte) []byte {
	b := make([]byte, 0, len(name)+len(data)+24)
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), bytes.TrimRight(data, "\r\n")...)
	return append(b, '\n', '\n')
}

// SetTimes shortens what tests of doors have to wait for: how long a write may
// take, and how often an idle stream gets a comment. Before any stream is open.
func SetTimes(write, idle time.Duration) { writeTime, keepAlive = write, idle }
