package streamable

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// writer is the protocol.Responder of one POST, and the stream of a GET. It answers with
// JSON, unless a notification comes first and the client accepts a stream. It is used by
// one goroutine.
type writer struct {
	w     http.ResponseWriter
	takes door.Accept

	mark    string        // id of the next event
	events  *door.Events  // not nil once it is a stream
	lasting *door.Lasting // for a request that may last; otherwise nil
	written bool
	closed  bool
	through bool // a response is written
}

func newWriter(w http.ResponseWriter, takes door.Accept) *writer {
	return &writer{w: w, takes: takes}
}

func (o *writer) header() http.Header { return o.w.Header() }

// Notify implements protocol.Sender.
func (o *writer) Notify(message []byte) {
	if !o.takes.Events {
		return
	}
	o.open()
	o.events.Notify(o.frame(message)) // dropped if the client is too slow: the response matters more
}

// Begin implements protocol.Resumable.
func (o *writer) Begin(id string) { o.push([]byte("id: " + id + "\nretry: 500\ndata: \n\n")) }

// Mark implements protocol.Resumable.
func (o *writer) Mark(id string) { o.mark = id }

// Leave implements protocol.Resumable.
func (o *writer) Leave(retry time.Duration) {
	o.push([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
	o.close()
}

// Respond implements protocol.Responder.
func (o *writer) Respond(status int, message []byte, refused error) {
	if o.events == nil && (o.takes.JSON && !o.takes.EventsFirst || status != http.StatusOK) {
		h := o.w.Header()
		door.Challenge(h, status, refused)
		h["Content-Type"] = jsonType
		h["Content-Length"] = []string{strconv.Itoa(len(message))}
		o.through = o.write(status, message) == nil
		return
	}
	o.push(o.frame(message))
	o.close()
}

// Send implements protocol.Sender.
func (o *writer) Send(message []byte) bool { return o.takes.Events && o.push(o.frame(message)) }

// Written implements protocol.Writer. After an error HTTP/2 may still read the response.
func (o *writer) Written() bool { return o.through }

// push sends an event that must not be dropped, and waits for room. It reports false if
// the client is gone.
func (o *writer) push(event []byte) bool {
	if o.closed {
		return false
	}
	o.open()
	return o.events.Send(event)
}

var jsonType = []string{"application/json"}

func (o *writer) write(status int, body []byte) error {
	o.written = true
	out := door.Paced(o.w)
	o.w.WriteHeader(status)
	_, err := out.Write(body)
	return err
}

// status answers without a body.
func (o *writer) status(code int) {
	if !o.written {
		_ = o.write(code, nil)
	}
}

// open turns the answer into a stream of events.
func (o *writer) open() {
	if o.events != nil {
		return
	}
	o.written = true
	o.events = door.NewEvents(o.w, func() {}) // Send reports that the client is gone
}

// Last implements protocol.Lasting.
func (o *writer) Last(rest func(protocol.Responder)) { o.last(func(out *writer) { rest(out) }) }

// last makes rest write a stream that outlives the handler.
func (o *writer) last(rest func(*writer)) {
	takes := o.takes
	o.written, o.closed = true, true
	o.lasting.Serve(func(events *door.Events) {
		out := &writer{takes: takes, events: events, written: true}
		defer out.close()
		rest(out)
	})
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

// close ends the stream, if there is one, after the queued messages.
func (o *writer) close() {
	switch {
	case o.closed:
	case o.events == nil:
		// A request that ends without a response was cancelled by another message; HTTP
		// still requires an answer.
		o.status(http.StatusAccepted)
	default:
		o.events.Close()
	}
	o.closed = true
}
