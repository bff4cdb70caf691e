package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// openAtOnce is how many streams are opened concurrently.
const openAtOnce = 64

// Streams are SSE streams that a server keeps open, and the messages received on them.
type Streams struct {
	conns []net.Conn
	want  []byte
	all   sync.WaitGroup
	// heard counts the streams that had what they wait for.
	heard atomic.Int64
	first atomic.Int64 // when the first had it, in ns since 1970
	last  atomic.Int64
	broke atomic.Pointer[error]
}

// Listen opens n streams; request makes the bytes of the nth. A stream is open when its
// answer has begun. They then wait for a line that has want in it.
func Listen(ctx context.Context, address string, n int, want string, request func(n int) ([]byte, error)) (*Streams, error) {
	s := &Streams{want: []byte(want), conns: make([]net.Conn, n)}
	readers := make([]*bufio.Reader, n)
	errs := make(chan error, openAtOnce)
	var next atomic.Int64
	for range openAtOnce {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					errs <- ctx.Err()
					return
				}
				var err error
				if s.conns[i], readers[i], err = open(address, i, request); err != nil {
					errs <- fmt.Errorf("stream %d of %d: %w", i+1, n, err)
					return
				}
			}
		}()
	}
	var err error
	for range openAtOnce {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	for _, r := range readers {
		s.all.Go(func() { s.wait(r) })
	}
	return s, nil
}

func open(address string, n int, request func(n int) ([]byte, error)) (net.Conn, *bufio.Reader, error) {
	bytes, err := request(n)
	if err != nil {
		return nil, nil, err
	}
	// An edge gives an address half of its connections, so there are some of them.
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+n%8))}, Timeout: answerTime}
	conn, err := from.Dial("tcp", address)
	if err != nil {
		return nil, nil, err
	}
	if _, err = conn.Write(bytes); err == nil {
		err = conn.SetReadDeadline(time.Now().Add(answerTime))
	}
	r := bufio.NewReaderSize(conn, 512)
	if err == nil {
		var status string
		if status, err = r.ReadString('\n'); err == nil && !strings.Contains(status, " 200 ") {
			err = fmt.Errorf("answer: %s", strings.TrimSpace(status))
		}
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	return conn, r, err
}

// wait reads a stream until it has what it waits for, and goes on: it stays open.
func (s *Streams) wait(r *bufio.Reader) {
	had := false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if !errors.Is(err, net.ErrClosed) {
				err = fmt.Errorf("a stream broke: %w", err)
				s.broke.Store(&err)
			}
			return
		}
		if !had && bytes.Contains(line, s.want) {
			had = true
			now := time.Now().UnixNano()
			s.first.CompareAndSwap(0, now)
			s.last.Store(now)
			s.heard.Add(1)
		}
	}
}

// Heard waits until all streams had what they wait for, and returns how long after the
// first the last had it.
func (s *Streams) Heard(ctx context.Context) (time.Duration, error) {
	for s.heard.Load() < int64(len(s.conns)) {
		if broke := s.broke.Load(); broke != nil {
			return 0, *broke
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d streams heard of it: %w", s.heard.Load(), len(s.conns), ctx.Err())
		}
	}
	return time.Duration(s.last.Load() - s.first.Load()), nil
}

// Close ends all streams.
func (s *Streams) Close() {
	for _, c := range s.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	s.all.Wait()
}
