package grpc

import (
	"encoding/binary"
	"io"
	"sync"
)

// ahead is how many messages of a stream are read before they are asked for.
const ahead = 2

// messages is the body of a request. gRPC reads the body to its end into memory, so
// messages passes on a message only when the call takes it. It does so in as few pieces
// as possible, because each piece gets a buffer of 16 KiB, however small it is.
type messages struct {
	body io.ReadCloser
	// allowed has a value for each message that may be read.
	allowed chan struct{}
	closing sync.Once
	closed  chan struct{}
	left    int // of the current message
}

func newMessages(body io.ReadCloser) *messages {
	m := &messages{body: body, allowed: make(chan struct{}, ahead), closed: make(chan struct{})}
	for range ahead {
		m.allow()
	}
	return m
}

// allow lets one more message be read, unless enough are allowed already.
func (m *messages) allow() {
	select {
	case m.allowed <- struct{}{}:
	default:
	}
}

// headerSize is the size of the prefix of each message: whether it is compressed, and its
// length.
const headerSize = 5

// Read implements io.Reader. b has room for a header.
func (m *messages) Read(b []byte) (n int, err error) {
	if m.left == 0 {
		if n, err = io.ReadFull(m.body, b[:headerSize]); err != nil {
			return n, err
		}
		size := binary.BigEndian.Uint32(b[1:headerSize])
		if size > maxMessage {
			return n, io.ErrUnexpectedEOF // gRPC refuses it by its header
		}
		m.left = int(size)
		select {
		case <-m.allowed:
		case <-m.closed:
			return 0, io.ErrUnexpectedEOF
		}
	}
	k, err := io.ReadFull(m.body, b[n:min(len(b), n+m.left)])
	m.left -= k
	if err == io.EOF && m.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n + k, err
}

// Close implements io.Closer.
func (m *messages) Close() error {
	m.closing.Do(func() { close(m.closed) })
	return m.body.Close()
}
