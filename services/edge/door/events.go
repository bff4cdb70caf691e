package door

import (
	"bytes"
	"net/http"
	"time"
)

// Variables so that tests can shorten them; see SetTimes.
var (
	// writeTime is how long one write may take before the client counts as gone.
	//limit:process one write to a stream of events | the stream ends
	writeTime = 10 * time.Second
	// keepAlive is how often a stream gets a comment, so that no proxy on the way takes
	// it for dead.
	keepAlive = 15 * time.Second
)

// Comment is an event that clients ignore.
var Comment = []byte(":\n\n")

// Events is a stream of server-sent events: a queue that is written to an answer (HTML,
// Server-sent events).
type Events struct {
	*queue
	out  output
	gone func()
	idle *time.Timer
}

// output is the destination of a stream: an answer of the HTTP server, or a connection
// that it has given away.
type output interface {
	// write writes messages, with last set for the last ones of the stream; each has its
	// time.
	write(messages [][]byte, last bool) error
}

// NewEvents makes a stream of the answer to a request. The answer begins with the first
// message, which may be empty. gone is called when the client turns out to be gone. Close
// the stream before the handler returns.
func NewEvents(w http.ResponseWriter, gone func()) *Events {
	return newEvents(&answer{w: w, control: http.NewResponseController(w)}, gone)
}

func newEvents(out output, gone func()) *Events {
	s := &Events{out: out, gone: gone}
	s.queue = newQueue(s.write)
	s.idle = time.AfterFunc(keepAlive, s.keepAlive)
	return s
}

func (s *Events) keepAlive() {
	select {
	case <-s.done:
	default:
		s.Notify(Comment)
		s.idle.Reset(keepAlive)
	}
}

func (s *Events) write(messages [][]byte, last bool) bool {
	err := s.out.write(messages, last)
	if err != nil || last {
		s.idle.Stop()
	}
	if err != nil {
		s.gone()
	}
	return err == nil
}

// Close ends the stream after the queued messages, and returns when they are written or
// the client is gone.
func (s *Events) Close() {
	s.End()
	<-s.done
}

// answer is a stream that is the server's answer to a request.
type answer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (a *answer) write(messages [][]byte, last bool) error {
	if !a.begun {
		a.begin()
	}
	out := paced{a.w, a.control}
	for _, m := range messages {
		if _, err := out.Write(m); err != nil {
			return err
		}
	}
	TimeWrite(a.control)
	if last {
		return nil // the server writes the end when the handler returns
	}
	return a.control.Flush()
}

// begin writes the head. It does not leave that to the first Flush, which would bypass
// wrappers of the writer.
func (a *answer) begin() {
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	TimeWrite(a.control)
	a.w.WriteHeader(http.StatusOK)
}

// Event makes a server-sent event with a name and a single line.
func Event(name string, data []byte) []byte {
	b := make([]byte, 0, len(name)+len(data)+24)
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), bytes.TrimRight(data, "\r\n")...)
	return append(b, '\n', '\n')
}

// SetTimes shortens the times that tests of doors have to wait for: the time of a write,
// and the interval of comments on an idle stream. Call it before any stream is open.
func SetTimes(write, idle time.Duration) { writeTime, keepAlive = write, idle }
