package sse

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"
)

// Variables for tests, which have less time.
var (
	// writeTime is how long one write may take before the client counts as gone.
	writeTime = 10 * time.Second
	// keepAlive is how often a stream gets a comment, so that nothing on the way
	// takes it for dead.
	keepAlive = 15 * time.Second
)

// That many messages, and bytes of them unless it is a single one, wait for a
// slow client. Beyond it notifications are dropped, and the rest waits.
const (
	maxQueued      = 256
	maxQueuedBytes = 256 << 10
)

// stream is the era.Out of a client: a queue, which run writes as server-sent
// events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// more has a value when there is something to write.
	more chan struct{}

	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	waiting int           // those in Send
	room    chan struct{} // closed when there is room again, and at the end
	ended   bool          // nothing is queued any more
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w), more: make(chan struct{}, 1), room: make(chan struct{})}
}

// Send implements era.Out.
func (s *stream) Send(message []byte) bool {
	for {
		s.mu.Lock()
		if s.ended || s.put(message) {
			defer s.mu.Unlock()
			return !s.ended
		}
		s.waiting++
		room := s.room
		s.mu.Unlock()
		<-room
	}
}

// Notify implements era.Out.
func (s *stream) Notify(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.waiting == 0 {
		s.put(message)
	}
}

// put queues a message if there is room.
func (s *stream) put(message []byte) bool {
	if len(s.queue) >= maxQueued || len(s.queue) > 0 && s.bytes+len(message) > maxQueuedBytes {
		return false
	}
	s.queue, s.bytes = append(s.queue, message), s.bytes+len(message)
	s.wake()
	return true
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take empties the queue and lets those in who wait. It reports whether the
// stream has ended.
func (s *stream) take() (queue [][]byte, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue, s.bytes = s.queue, nil, 0
	close(s.room)
	s.room, s.waiting = make(chan struct{}), 0
	return queue, s.ended
}

// end ends the stream after what is queued.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// run writes the endpoint and then messages, until the stream ends, ctx does or
// the client is gone.
func (s *stream) run(ctx context.Context, endpoint string) {
	defer s.take() // lets go who waits
	defer s.end()
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	next := event("endpoint", []byte(endpoint))
	for s.write(next) && s.control.Flush() == nil {
		select {
		case <-s.more:
			queue, ended := s.take()
			next = nil
			for _, message := range queue {
				next = append(next, event("message", message)...)
			}
			if ended {
				s.write(next) // and its deadline is for the end that net/http writes
				return
			}
		case <-idle.C:
			next = []byte(":\n\n")
		case <-ctx.Done():
			return
		}
	}
}

// write writes within its time; false when the client is gone.
func (s *stream) write(b []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.w.Write(b)
	return err == nil
}

// event makes a server-sent event of a single line.
func event(name string, data []byte) []byte {
	b := make([]byte, 0, len(name)+len(data)+24)
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), bytes.TrimRight(data, "\r\n")...)
	return append(b, '\n', '\n')
}
