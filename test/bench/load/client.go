// Package load makes calls and measures them: over connections that send requests made beforehand,
// so the caller costs little compared with the server.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerTime bounds one call. A server that hangs fails the run.
const answerTime = 60 * time.Second

// Target is the address of calls, and the right answer.
type Target struct {
	// Address is the host:port.
	Address string
	// Request is a whole HTTP request.
	Request []byte
	// Want is in the answer, Never is not.
	Want, Never []byte
	// Size is how long the answer's body is at least.
	Size int
	// Times is how often Want is in the answer; 0 is at least once.
	Times int
}

// Connection is one keep-alive connection of HTTP/1.1. It makes its requests one after another, and
// begins again after the last.
type Connection struct {
	conn    net.Conn
	in      *bufio.Reader
	targets []*Target
	next    int
	answer  []byte
	// last are the last right answers: one of the same bytes is right too.
	last [][]byte
}

// Connect opens a connection to the address of the first target.
func Connect(targets ...*Target) (*Connection, error) {
	conn, err := net.DialTimeout("tcp", targets[0].Address, answerTime)
	if err != nil {
		return nil, err
	}
	return &Connection{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), targets: targets, last: make([][]byte, len(targets))}, nil
}

// Close closes the connection.
func (c *Connection) Close() { _ = c.conn.Close() }

// Call makes one request, reads its answer, and fails if that is not right.
func (c *Connection) Call() error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	i := c.next
	c.next = (i + 1) % len(c.targets)
	// A large request is answered while it is still on its way where it is refused; then
	// the answer says why.
	_, sent := c.conn.Write(c.targets[i].Request)
	status, err := c.read()
	if err != nil {
		return errors.Join(sent, err)
	}
	if status == 200 && len(c.answer) > 0 && bytes.Equal(c.answer, c.last[i]) {
		return nil
	}
	if err := c.targets[i].right(status, c.answer); err != nil {
		return err
	}
	c.last[i] = append(c.last[i][:0], c.answer...)
	return nil
}

func (t *Target) right(status int, answer []byte) error {
	wrong := ""
	switch {
	case status != 200:
		wrong = "status " + strconv.Itoa(status)
	case len(answer) < t.Size:
		wrong = fmt.Sprintf("%d bytes, not %d", len(answer), t.Size)
	case !bytes.Contains(answer, t.Want):
		wrong = fmt.Sprintf("it does not contain %q", t.Want)
	case t.Times > 0 && bytes.Count(answer, t.Want) != t.Times:
		wrong = fmt.Sprintf("it contains %q %d times, not %d", t.Want, bytes.Count(answer, t.Want), t.Times)
	case len(t.Never) > 0 && bytes.Contains(answer, t.Never):
		wrong = fmt.Sprintf("it contains %q", t.Never)
	default:
		return nil
	}
	return fmt.Errorf("wrong answer of %s: %s: %.600s", t.Address, wrong, answer)
}

// read reads one answer into c.answer.
func (c *Connection) read() (status int, err error) {
	length, chunked := -1, false
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if first {
			if len(line) < 12 {
				return 0, fmt.Errorf("not HTTP: %q", line)
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, fmt.Errorf("not HTTP: %q", line)
			}
			continue
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == 14 && strings.EqualFold(string(name), "Content-Length"):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		case len(name) == 17 && strings.EqualFold(string(name), "Transfer-Encoding"):
			chunked = true
		}
	}
	c.answer = c.answer[:0]
	switch {
	case chunked:
		return status, c.chunks()
	case length < 0:
		return 0, errors.New("the answer has no length")
	}
	return status, c.take(length)
}

// take appends n bytes to the answer.
func (c *Connection) take(n int) error {
	begin := len(c.answer)
	if cap(c.answer) < begin+n {
		c.answer = append(make([]byte, 0, 2*(begin+n)), c.answer...)
	}
	c.answer = c.answer[:begin+n]
	_, err := io.ReadFull(c.in, c.answer[begin:])
	return err
}

func (c *Connection) chunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk: %w", err)
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil { // the line's end after the chunk
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// Once makes one call and returns its answer.
func Once(t *Target) ([]byte, error) {
	c, err := Connect(t)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := Patiently(c.Call); err != nil {
		return nil, err
	}
	return bytes.Clone(c.answer), nil
}
