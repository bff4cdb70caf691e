package grpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/door"
)

// Serve serves on l until ctx ends. It then waits for running calls, for at most drain,
// and returns. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	var protocols http.Protocols
	protocols.SetHTTP2(true) // over TLS
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: s, Protocols: &protocols, ErrorLog: s.errors,
		// The writer of an answer limits how long it takes.
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 4<<20 - 1,
			SendPingTimeout: 30 * time.Second, PingTimeout: 10 * time.Second, WriteByteTimeout: 10 * time.Second,
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.health.Shutdown()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if srv.Shutdown(late) != nil {
		_ = srv.Close()
	}
	s.server.Stop()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP serves one stream, over HTTP/2. gRPC's own server would hold an answer for as
// long as its client likes, and cannot end a single stream.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.streams.Add(1)
	defer s.streams.Add(-1)
	ctx, release := s.track(r.Context())
	// After the last byte is written, not when the call has its result.
	defer release()
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), gone: gone, flushed: make(chan struct{}, 1)}
	in := newMessages(r.Body)
	r = r.WithContext(context.WithValue(ctx, streamKey{}, &wire{a, in}))
	r.Body = in
	s.server.ServeHTTP(a, r)
}

// Streams is the number of open streams, including those whose client has not read all of
// its answer yet.
func (s *Server) Streams() int64 { return s.streams.Load() }

type streamKey struct{}

// wire is both directions of one stream.
type wire struct {
	out *answer
	in  *messages
}

// answer is the answer of one stream. A client that has taken nothing for the time of
// door.TimeWrite loses the stream.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	gone    context.CancelFunc
	timed   bool          // the current message has its deadline
	flushed chan struct{} // has a value when a message is written
}

const (
	// piece is the number of bytes that a client has to take in that time.
	piece = 32 << 10
	// buffered is the size of the buffer of net/http.
	buffered = 4 << 10
)

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		if !a.timed || len(b) > buffered {
			a.timed = true
			door.TimeWrite(a.control)
		}
		n, err := a.ResponseWriter.Write(b[:min(len(b), piece)])
		written += n
		if err != nil {
			a.gone()
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// Flush implements http.Flusher. gRPC calls it once for each message.
func (a *answer) Flush() {
	if !a.timed {
		door.TimeWrite(a.control)
	}
	if a.control.Flush() != nil {
		a.gone()
	}
	// Until the next message nothing waits for the client.
	a.timed = false
	_ = a.control.SetWriteDeadline(time.Time{})
	select {
	case a.flushed <- struct{}{}:
	default:
	}
}
