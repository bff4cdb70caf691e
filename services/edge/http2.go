package edge

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/door"
)

// http2Protocol is the name of HTTP/2 in a TLS handshake (RFC 9113, 3.2).
const http2Protocol = "h2"

// http2Limits bound the resources of one connection. MaxHeaderBytes of the server bounds
// lists of headers. Requests that a client resets before they are served wait in a queue
// of four times the streams; when it is full, the server ends the connection.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		// Streams of events stay open, and calls run beside them.
		MaxConcurrentStreams: 100,
		// The least that the protocol allows; a larger one would need a larger buffer.
		MaxReadFrameSize: 16 << 10,
		// Bytes of bodies that have arrived and are not read yet.
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20,
		// For the table of remembered header names and values.
		MaxDecoderHeaderTableSize: 4 << 10, MaxEncoderHeaderTableSize: 4 << 10,
		// For a client that is gone, and one that accepts no byte.
		SendPingTimeout: 30 * time.Second, PingTimeout: 10 * time.Second, WriteByteTimeout: 10 * time.Second,
	}
}

const (
	// maxCancelled is how many requests a client may take back within cancelTime, if they
	// are most of its requests. Taking a request back costs a client nothing, but
	// beginning it costs the edge something.
	maxCancelled = 500
	cancelTime   = 10 * time.Second
)

// cancelled counts the requests over an HTTP/2 connection, and those that the client
// takes back.
type cancelled struct {
	conn net.Conn

	mu        sync.Mutex
	since     time.Time
	all, back int
}

// overHTTP2 wraps a handler in what only requests over HTTP/2 need. Requests over
// HTTP/1.1 have a connection to themselves.
func overHTTP2(next http.Handler) http.Handler {
	streams := patient(door.Multiplexed(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		streams.ServeHTTP(w, r)
	})
}

// patient ends the connections of clients that take back most of their requests.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*cancelled)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		defer func() {
			if c.count(r.Context().Err() != nil) {
				_ = c.conn.Close()
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// count reports whether the connection has to end.
func (c *cancelled) count(back bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) > cancelTime {
		c.since, c.all, c.back = now, 0, 0
	}
	c.all++
	if back {
		c.back++
	}
	return c.back > maxCancelled && 2*c.back > c.all
}
