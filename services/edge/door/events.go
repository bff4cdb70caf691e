package door

import (
	"bytes"
	"context"
	"net/http"
	"sync"
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

// That many events, and bytes of them unless it is a single one, wait for a
// slow client. Beyond it those of Notify are dropped, and the rest waits.
const (
	maxQueued      = 256
	maxQueuedBytes = 256 << 10
)

// Events is a stream of server-sent events: a queue, which Run writes (HTML,
// Server-sent events).
type Events struct {
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

// NewEvents makes a stream of the answer to a request.
func NewEvents(w http.ResponseWriter) *Events {
	return &Events{w: w, control: http.NewResponseController(w), more: make(chan struct{}, 1), room: make(chan struct{})}
}

// Send sends an event. It waits for a slow client, though not for ever, and
// reports false when the client is gone.
func (s *Events) Send(event []byte) bool {
	for {
		s.mu.Lock()
		if s.ended || s.put(event) {
			defer s.mu.Unlock()
			return !s.ended
		}
		s.waiting++
		room := s.room
		s.mu.Unlock()
		<-room
	}
}

// Notify sends an event, or drops what the client is too slow for.
func (s *Events) Notify(event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.waiting == 0 {
		s.put(event)
	}
}

// put queues an event if there is room.
func (s *Events) put(event []byte) bool {
	if len(s.queue) >= maxQueued || len(s.queue) > 0 && s.bytes+len(event) > maxQueuedBytes {
		return false
	}
	s.queue, s.bytes = append(s.queue, event), s.bytes+len(event)
	s.wake()
	return true
}

func (s *Events) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take empties the queue and lets those in who wait. It reports whether the
// stream has ended.
func (s *Events) take() (queue [][]byte, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue, s.bytes = s.queue, nil, 0
	close(s.room)
	s.room, s.waiting = make(chan struct{}), 0
	return queue, s.ended
}

// End ends the stream after what is queued.
func (s *Events) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// Run writes first, nil for nothing, and then what is sent, until the stream
// ends, ctx does or the client is gone.
func (s *Events) Run(ctx context.Context, first []byte) {
	defer s.take() // lets go who waits
	defer s.End()
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	next := first
	for s.write(next) && s.control.Flush() == nil {
		select {
		case <-s.more:
			queue, ended := s.take()
			next = bytes.Join(queue, nil)
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
func (s *Events) write(b []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.w.Write(b)
	return err == nil
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
