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
// waits for what may come. The server of HTTP/1.1 keeps a goroutine, whose stack the
// handler has made large, and buffers of 12 KiB for each request, which is most of what
// such a stream would cost. So it is asked for the connection, and the handler returns.
type Lasting struct {
	all    *Connections
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	cancel context.CancelFunc
	// handled parts the stream from its request.
	handled func() bool
}

// Last makes the answer to a request, of which nothing is written yet, one that lasts
// when Serve is called. Until then the request is like any other.
func (c *Connections) Last(w http.ResponseWriter, r *http.Request) *Lasting {
	ctx, cancel := context.WithCancel(c.ctx)
	return &Lasting{all: c, w: w, r: r, ctx: ctx, cancel: cancel, handled: context.AfterFunc(r.Context(), cancel)}
}

// Context ends when the client is gone, or the stream is over. It has nothing of the
// request's.
func (l *Lasting) Context() context.Context { return l.ctx }

// Serve begins the stream, and has run serve it to its end. Where the connection can do
// without the server that goes on concurrently, and Serve returns at once, as the handler
// has to then. So run holds on to nothing of the answer to the request.
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

// begin has the server write the head of the answer, and takes the connection over, which
// ends with the stream: what the client has sent ahead is not served there any more, as
// the head tells (RFC 9112, 9.6).
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

// lasting is a stream that lasts. It has nothing of its request, whose answer has the
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
	// A defect met by one stream must not end those of others.
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

// maxAhead bounds what is read of a client that talks on, bytes. A client that waits has
// nothing to say: a next request at most, which is not served.
const maxAhead = 64 << 10

// watch waits until the client is gone. What it says beyond maxAhead is left to the
// kernel, whose room is bounded: that client is gone when it takes no more.
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

// given is a connection that the HTTP server has given away, with an answer in chunks
// under way (RFC 9112, 7.1).
type given struct{ conn net.Conn }

// buffers are for streams that are being written to.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

func (g given) write(messages [][]byte, last bool) error {
	out := buffers.Get().(*bufio.Writer)
	out.Reset(paced{g.conn, g.conn})
	defer func() {
		out.Reset(nil)
		buffers.Put(out)
		// One that has passed would fail what TLS has to say of its own, while nothing is said.
		_ = g.conn.SetWriteDeadline(time.Time{})
	}()
	for _, m := range messages {
		if len(m) == 0 {
			continue // it would be the end
		}
		_, _ = out.Write(append(strconv.AppendUint(out.AvailableBuffer(), uint64(len(m)), 16), "\r\n"...))
		_, _ = out.Write(m)
		_, _ = out.WriteString("\r\n")
	}
	if last {
		_, _ = out.WriteString("0\r\n\r\n")
	}
	return out.Flush() // with the first error
}
