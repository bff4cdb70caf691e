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

// A request with both Content-Length and Transfer-Encoding may be two requests to a proxy
// in front, so its connection must end with the answer (RFC 9112, 6.3). The HTTP server
// removes the first header and continues, so the bytes are inspected here before it reads
// them. Only beginnings of lines are inspected: if a line of a JSON body looks like a
// header, that costs no more than a connection.

// framed is a listener whose connections detect such requests. HTTP/2 has frames instead
// of both headers, so its connections pass unchanged.
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

// framedTLS is a framedConn that shows the HTTP server that it is encrypted.
type framedTLS struct {
	framedConn
	secure *tls.Conn
}

// ConnectionState is for the HTTP server, which puts it into requests.
func (c *framedTLS) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// framedConn is read by one goroutine at a time.
type framedConn struct {
	net.Conn
	// ambiguous is set if a request had both headers. The connection serves no further
	// request.
	ambiguous atomic.Bool

	// begun is set when the first request has begun. Until then, header is the time for
	// its headers, counted from its first byte.
	begun  bool
	header time.Duration

	line            []byte // the part of the current line that was read, as far as it matters
	skip            bool   // the rest of the current line does not matter
	length, chunked bool   // which headers the current block of lines had
}

// Beginnings of lines, in lower case.
var (
	lengthName  = []byte("content-length:")
	chunkedName = []byte("transfer-encoding:")
)

// Read implements net.Conn.
func (c *framedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.begun {
		if c.begun = true; c.header > 0 {
			_ = c.Conn.SetReadDeadline(time.Now().Add(c.header)) // a connection that has no deadlines fails when it is read
		}
	}
	if !c.ambiguous.Load() {
		c.scan(b[:n])
	}
	return n, err
}

// SetReadDeadline implements net.Conn. The HTTP server counts the time for the headers of
// the first request from the beginning of the connection. But clients and proxies open
// connections ahead of need, and reuse them like any other. So these connections get
// idleTime.
func (c *framedConn) SetReadDeadline(t time.Time) error {
	if !c.begun && !t.IsZero() {
		c.header, t = time.Until(t), time.Now().Add(idleTime)
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite is for the HTTP server: it lets a client that is still sending read why it
// is refused.
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

// begin takes more bytes of the beginning of a line.
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

// connKey is the context key of a request's connection: a *framedConn, or *cancelled for
// HTTP/2.
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

// unambiguous ends connections after the first ambiguous request.
func unambiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*framedConn); ok && c.ambiguous.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
