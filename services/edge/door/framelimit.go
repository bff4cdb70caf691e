package door

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
)

// The WebSocket library counts the bytes that it reads. A frame whose header announces
// too many bytes is refused at once (RFC 6455, 7.4.1: 1009), so that the client need not
// send the rest.

// limited is a response that inspects the frames of its connection once that is a
// WebSocket's.
type limited struct {
	http.ResponseWriter
	limit uint64
	// tooLong is called at most once, heard whenever bytes have arrived.
	tooLong, heard func()
}

// Unwrap is for http.ResponseController.
func (l limited) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Hijack implements http.Hijacker.
func (l limited) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	c := &frameConn{Conn: conn, in: io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), limit: l.limit, tooLong: l.tooLong, heard: l.heard}
	return c, bufio.NewReadWriter(bufio.NewReader(c), rw.Writer), nil
}

// frameConn reads the headers of the frames that pass.
type frameConn struct {
	net.Conn
	limit uint64
	in    io.Reader

	tooLong, heard func()

	header []byte // read bytes of the current frame's header
	left   uint64 // bytes until the next one
	said   uint64 // lengths of the current message's frames, added up
	over   bool
}

// Read implements net.Conn.
func (c *frameConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if n > 0 {
		c.heard()
	}
	for in := b[:n]; len(in) > 0 && !c.over; {
		if c.left > 0 {
			skip := min(c.left, uint64(len(in)))
			in, c.left = in[skip:], c.left-skip
			continue
		}
		c.header = append(c.header, in[0])
		in = in[1:]
		if size := headerSize(c.header); len(c.header) == size {
			c.frame()
		}
	}
	return n, err
}

// headerSize is the size of a header of which the beginning is known (RFC 6455, 5.2).
func headerSize(h []byte) int {
	if len(h) < 2 {
		return 2
	}
	size := 2
	switch h[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if h[1]&0x80 != 0 {
		size += 4
	}
	return size
}

func (c *frameConn) frame() {
	h := c.header
	length := uint64(h[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		length = binary.BigEndian.Uint64(h[2:])
	}
	c.header, c.left = h[:0], length
	if h[0]&0x08 != 0 {
		return // a control frame: the library knows how short these are
	}
	if h[0]&0x0f != 0 {
		c.said = 0 // a new message
	}
	// Each summand is compared by itself, so that the sum cannot overflow.
	if length > c.limit || c.said+length > c.limit {
		c.over = true
		c.tooLong()
		return
	}
	c.said += length
}
