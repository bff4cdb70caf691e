package door

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sourcegraph/conc/panics"
)

// Lasting is the answer to a request that lasts: a stream of events for a client that
// waits. For each request, the HTTP/1.1 server keeps a goroutine, whose stack the handler
// has made large, and buffers of 12 KiB, which would be most of the cost of such a
// stream. So Lasting takes the connection from the server, and the handler returns.
type Lasting struct {
	all    *Connections
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	cancel context.CancelFunc
	// handled detaches the stream from its request.
	handled func() bool
}

// Last makes a lasting answer to a request whose answer is not begun. Until Serve is
// called, the request is like any other.
func (c *Connections) Last(w http.ResponseWriter, r *http.Request) *Lasting {
	ctx, cancel := context.WithCancel(c.ctx)
	return &Lasting{all: c, w: w, r: r, ctx: ctx, cancel: cancel, handled: context.AfterFunc(r.Context(), cancel)}
}

// Context ends when the client is gone, or the stream is over. It has nothing of the
// request's context.
func (l *Lasting) Context() context.Context { return l.ctx }

// Serve begins the stream, and makes run serve it to its end. If the connection can do
// without the server, run goes on concurrently and Serve returns at once; the handler has
// to return then. So run must not use the answer to the request.
func (l *Lasting) Serve(run func(*Events)) {
	l.all.enter()
	out := l.begin()
	s := &lasting{all: l.all, ctx: l.ctx, cancel: l.cancel, run: run, events: newEvents(out, l.cancel)}
	given, ok := out.(given)
	if !ok {
		defer l.all.leave()
		s.events.Notify(nil) // the head
		s.serve()
		return
	}
	l.handled() // net/http ends the request's context when the handler returns
	go s.serveAt(given.conn)
}

// begin makes the server write the head of the answer, and takes over the connection,
// which ends with the stream. Requests that the client has sent ahead are not served on
// this connection any more, as the head says (RFC 9112, 9.6).
func (l *Lasting) begin() output {
	a := &answer{w: l.w, control: http.NewResponseController(l.w)}
	if l.r.ProtoMajor != 1 || l.r.ProtoMinor < 1 {
		return a // HTTP/2 has no connection to give, and HTTP/1.0 no chunks
	}
	l.w.Header().Set("Connection", "close")
	a.begin()
	if a.control.Flush() != nil {
		return a
	}
	conn, _, err := a.control.Hijack()
	if err != nil {
		return a
	}
	return given{conn}
}

// lasting is a stream that lasts. It does not refer to its request, whose answer has the
// server's buffers.
type lasting struct {
	all    *Connections
	ctx    context.Context
	cancel context.CancelFunc
	events *Events
	run    func(*Events)
}

// serve serves the stream to its end.
func (s *lasting) serve() {
	defer s.cancel()
	// A defect in one stream must not end other streams.
	if caught := panics.Try(func() { s.run(s.events) }); caught != nil {
		s.all.log.Error("a stream panicked", "panic", caught.Value, "stack", string(caught.Stack))
		s.cancel()
	}
	s.events.Close()
}

// serveAt is serve for a connection that the server has given away.
func (s *lasting) serveAt(conn net.Conn) {
	defer s.all.leave()
	end := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.watch(conn)
	}()
	s.serve()
	end()
	_ = conn.Close()
	<-read
}

// maxAhead bounds the bytes that are read from a client that keeps sending. A client that
// waits sends at most its next request, which is not served.
const maxAhead = 64 << 10

// watch waits until the client is gone. Bytes beyond maxAhead are left to the kernel,
// whose room is bounded: a client that sends more is gone when it stops reading.
func (s *lasting) watch(conn net.Conn) {
	b := make([]byte, 64)
	for read := 0; read < maxAhead; {
		n, err := conn.Read(b)
		if err != nil {
			s.cancel()
			return
		}
		read += n
	}
}

// given is a connection that the HTTP server has given away, in the middle of an answer
// in chunks (RFC 9112, 7.1).
type given struct{ conn net.Conn }

// buffers are for streams that are being written to.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

func (g given) write(messages [][]byte, last bool) error {
	out := buffers.Get().(*bufio.Writer)
	out.Reset(paced{g.conn, g.conn})
	defer func() {
		out.Reset(nil)
		buffers.Put(out)
		// A deadline that has passed would break TLS's own messages while the stream is
		// idle.
		_ = g.conn.SetWriteDeadline(time.Time{})
	}()
	for _, m := range messages {
		if len(m) == 0 {
			continue // an empty chunk would be the end
		}
		_, _ = out.Write(append(strconv.AppendUint(out.AvailableBuffer(), uint64(len(m)), 16), "\r\n"...))
		_, _ = out.Write(m)
		_, _ = out.WriteString("\r\n")
	}
	if last {
		_, _ = out.WriteString("0\r\n\r\n")
	}
	return out.Flush() // returns the first error
}
