package streamable

import (
	"bytes"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/door"
)

// That many notifications, and bytes of them, wait for a slow client; more are
// dropped. The response is not.
const (
	maxQueued      = 256
	maxQueuedBytes = 256 << 10
)

// writer is the era.Responder of one POST, and a GET's stream. It answers with
// JSON unless a notification comes first and the client takes a stream. It is
// used by one goroutine; a second one, its own, writes the stream.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	takes   door.Accept

	mark    string        // id of the next event
	events  chan []byte   // not nil once it is a stream
	queued  atomic.Int64  // bytes in events
	taken   chan struct{} // has a value when queued is less than before
	ended   chan struct{} // closed when the stream's goroutine has ended
	written bool
	closed  bool
}

func newWriter(w http.ResponseWriter, takes door.Accept) *writer {
	return &writer{w: w, control: http.NewResponseController(w), takes: takes}
}

func (o *writer) header() http.Header { return o.w.Header() }

// Notify implements era.Sender.
func (o *writer) Notify(message []byte) {
	if !o.takes.Events {
		return
	}
	o.open()
	event := o.frame(message)
	size := int64(len(event))
	if queued := o.queued.Add(size); queued > maxQueuedBytes && queued > size {
		o.queued.Add(-size) // too slow: the response matters more
		return
	}
	select {
	case o.events <- event:
	default:
		o.queued.Add(-size)
	}
}

// Begin implements era.Resumable.
func (o *writer) Begin(id string) { o.push([]byte("id: " + id + "\nretry: 500\ndata: \n\n")) }

// Mark implements era.Resumable.
func (o *writer) Mark(id string) { o.mark = id }

// Leave implements era.Resumable.
func (o *writer) Leave(retry time.Duration) {
	o.push([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
	o.close()
}

// Respond implements era.Responder.
func (o *writer) Respond(status int, message []byte) {
	if o.events == nil && (o.takes.JSON && !o.takes.EventsFirst || status != http.StatusOK) {
		h := o.w.Header()
		door.Challenge(h, status)
		h["Content-Type"] = jsonType
		h["Content-Length"] = []string{strconv.Itoa(len(message))}
		o.write(status, message)
		return
	}
	o.push(o.frame(message))
	o.close()
}

// Send implements era.Sender.
func (o *writer) Send(message []byte) bool { return o.takes.Events && o.push(o.frame(message)) }

// push sends an event that must not be dropped, and waits for room. It reports
// false when the client is gone.
func (o *writer) push(event []byte) bool {
	if o.closed {
		return false
	}
	o.open()
	size := int64(len(event))
	for queued := o.queued.Add(size); queued > maxQueuedBytes && queued > size; queued = o.queued.Load() {
		select {
		case <-o.taken:
		case <-o.ended:
			return false
		}
	}
	select {
	case o.events <- event:
		return true
	case <-o.ended:
		return false
	}
}

var jsonType = []string{"application/json"}

func (o *writer) write(status int, body []byte) {
	o.written = true
	door.TimeWrite(o.control)
	o.w.WriteHeader(status)
	_, _ = o.w.Write(body)
}

// status answers without a body.
func (o *writer) status(code int) {
	if !o.written {
		o.write(code, nil)
	}
}

// open turns the answer into a stream of events.
func (o *writer) open() {
	if o.events != nil {
		return
	}
	o.written = true
	o.events, o.ended = make(chan []byte, maxQueued), make(chan struct{})
	o.taken = make(chan struct{}, 1)
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	go o.stream()
}

// stream writes events until the channel is closed or the client is gone.
func (o *writer) stream() {
	defer close(o.ended)
	idle := time.NewTicker(door.KeepAlive())
	defer idle.Stop()
	door.TimeWrite(o.control)
	o.w.WriteHeader(http.StatusOK)
	if o.control.Flush() != nil {
		return
	}
	for {
		var event []byte
		select {
		case next, more := <-o.events:
			if !more {
				// For the end that net/http writes: the last write may be long ago.
				door.TimeWrite(o.control)
				return
			}
			event = next
			o.queued.Add(-int64(len(event)))
			select {
			case o.taken <- struct{}{}:
			default:
			}
		case <-idle.C:
			event = []byte(":\n\n")
		}
		door.TimeWrite(o.control)
		if _, err := o.w.Write(event); err != nil {
			return
		}
		if len(o.events) > 0 {
			continue // flush several at once
		}
		if o.control.Flush() != nil {
			return
		}
	}
}

// frame makes a message an event. Messages are single lines.
func (o *writer) frame(message []byte) []byte {
	b := make([]byte, 0, len(message)+len(o.mark)+40)
	if o.mark != "" {
		b = append(append(append(b, "id: "...), o.mark...), '\n')
		o.mark = ""
	}
	b = append(b, "event: message\ndata: "...)
	b = append(b, bytes.TrimRight(message, "\r\n")...)
	return append(b, '\n', '\n')
}

// close ends the stream, if there is one, after what is queued.
func (o *writer) close() {
	switch {
	case o.closed:
	case o.events == nil:
		// A request that ends without a response was cancelled by a message of
		// its own; HTTP still owes an answer.
		o.status(http.StatusAccepted)
	default:
		close(o.events)
		<-o.ended
	}
	o.closed = true
}
