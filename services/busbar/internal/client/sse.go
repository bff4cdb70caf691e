package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errTooLong = errors.New("event too long")

// eventReader reads the data of server-sent events (HTML Standard, 9.2).
type eventReader struct {
	r *bufio.Reader
	// max bounds the bytes of one event.
	max int
	// skipLF: the last line ended in CR; a LF right after belongs to it. To
	// look for it at once would wait for the next event.
	skipLF bool
	line   []byte
}

func newEventReader(r io.Reader, limit int) *eventReader {
	br := bufio.NewReader(r)
	if mark, err := br.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = br.Discard(3) // cannot fail: the bytes were peeked
	}
	return &eventReader{r: br, max: limit}
}

// next returns the data of the next message event. It is valid until the
// caller drops it. The error is io.EOF at the end of the stream; an event that
// no empty line closes does not count.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	hasData, other := false, false
	for {
		if err := e.readLine(e.max - len(data)); err != nil {
			return nil, err
		}
		if len(e.line) == 0 {
			if hasData && !other && len(data) > 0 {
				return data, nil
			}
			data, hasData, other = nil, false, false
			continue
		}
		field, value, _ := bytes.Cut(e.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			data, hasData = append(data, value...), true
		case "event":
			other = len(value) > 0 && string(value) != "message"
		}
	}
}

// readLine reads a line that ends in LF, CR or CRLF into e.line.
func (e *eventReader) readLine(room int) error {
	e.line = e.line[:0]
	for {
		b, err := e.r.ReadByte()
		if err != nil {
			return err
		}
		skip := e.skipLF
		e.skipLF = b == '\r'
		switch {
		case b == '\n' && skip:
			continue
		case b == '\n' || b == '\r':
			return nil
		case len(e.line) >= room:
			return errTooLong
		}
		e.line = append(e.line, b)
	}
}
