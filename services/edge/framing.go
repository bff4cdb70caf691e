package edge

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A request with both Content-Length and Transfer-Encoding may be two requests to
// a proxy in front, so its connection must end with the answer (RFC 9112, 6.3).
// The HTTP server takes the first header away and goes on. What it reads is
// looked at here on its way: only the beginnings of lines, since a line of a JSON
// body that looks like a header costs no more than a connection.

// framed is a listener whose connections know of such requests. Those of HTTP/2
// have frames for both, and pass as they are.
type framed struct{ net.Listener }

// Accept implements net.Listener.
func (l framed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	secure, ok := c.(*tls.Conn)
	switch {
	case !ok:
		return &framedConn{Conn: c}, nil
	case secure.ConnectionState().NegotiatedProtocol == http2Protocol:
		return secure, nil
	}
	return &framedTLS{framedConn{Conn: secure}, secure}, nil
}

// framedTLS is a framedConn of which the HTTP server can tell that it is encrypted.
type framedTLS struct {
	framedConn
	secure *tls.Conn
}

// ConnectionState is for the HTTP server, which puts it into requests.
func (c *framedTLS) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// framedConn is read by one goroutine at a time.
type framedConn struct {
	net.Conn
	// ambiguous: a request had both headers. The connection serves no other.
	ambiguous atomic.Bool

	// begun says that the first request has begun; until then header is what it has for its
	// headers from its first byte on.
	begun  bool
	header time.Duration

	line            []byte // what was read of the current line, as far as it matters
	skip            bool   // the rest of the current line does not matter
	length, chunked bool   // the headers that the current block of lines has had
}

// Names that lines begin with, in lower case.
var (
	lengthName  = []byte("content-length:")
	chunkedName = []byte("transfer-encoding:")
)

// Read implements net.Conn.
func (c *framedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.begun {
		if c.begun = true; c.header > 0 {
			_ = c.Conn.SetReadDeadline(time.Now().Add(c.header)) // a connection without it reads an error
		}
	}
	if !c.ambiguous.Load() {
		c.scan(b[:n])
	}
	return n, err
}

// SetReadDeadline implements net.Conn. The HTTP server counts the time for the headers of
// the first request from the beginning of the connection. Clients and proxies open
// connections ahead of need, and reuse them as any other: they have idleTime.
func (c *framedConn) SetReadDeadline(t time.Time) error {
	if !c.begun && !t.IsZero() {
		c.header, t = time.Until(t), time.Now().Add(idleTime)
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite is for the HTTP server, which so lets a client read why it is refused
// while it still sends.
func (c *framedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *framedConn) scan(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if !c.skip {
			c.begin(part)
		}
		if end < 0 {
			return
		}
		if len(bytes.TrimSuffix(c.line, []byte("\r"))) == 0 {
			c.length, c.chunked = false, false
		}
		c.line, c.skip, b = c.line[:0], false, b[end+1:]
	}
}

// begin takes more of the beginning of a line.
func (c *framedConn) begin(part []byte) {
	c.line = append(c.line, part[:min(len(part), len(chunkedName)-len(c.line))]...)
	switch {
	case hasName(c.line, lengthName):
		c.length, c.skip = true, true
	case hasName(c.line, chunkedName):
		c.chunked, c.skip = true, true
	default:
		c.skip = len(c.line) == len(chunkedName)
	}
	if c.length && c.chunked {
		c.ambiguous.Store(true)
	}
}

func hasName(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}

// connKey is where the context of a request has what is known of its connection: a
// *framedConn, or *cancelled for HTTP/2.
type connKey struct{}

// connContext is the http.Server's ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	switch c := c.(type) {
	case *framedConn:
		return context.WithValue(ctx, connKey{}, c)
	case *framedTLS:
		return context.WithValue(ctx, connKey{}, &c.framedConn)
	}
	return context.WithValue(ctx, connKey{}, &cancelled{conn: c})
}

// unambiguous ends connections with the first request that is not.
func unambiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*framedConn); ok && c.ambiguous.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
