package mcp

import (
	"bytes"
	"slices"
	"sync"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// place says which object of a message the scanner is in, so that one pass both checks
// the bytes and finds the members that the protocol reads.
type place uint8

const (
	elsewhere place = iota
	inMessage
	inParams
	inMeta
)

// scanner is a strict single-pass reader of RFC 8259.
type scanner struct {
	b      []byte
	i      int
	lim    Limits
	values int
	// names holds the member names of the objects being read, outermost
	// first, for the duplicate check.
	names [][]byte
	room  [24][]byte

	// without lists members that the outermost object must not have.
	without []string

	own     Message
	m       *Message
	seen    seen
	idErr   error
	typeErr *fault.Error
}

func (s *scanner) message() error {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == '[' {
		if err := s.value(1, elsewhere); err != nil {
			return err
		}
		return fault.New(fault.InvalidRequest, "batches are not accepted here; send one message at a time")
	}
	if s.i < len(s.b) && s.b[s.i] != '{' {
		if err := s.value(1, elsewhere); err != nil {
			return err
		}
		return fault.New(fault.InvalidRequest, "a message must be a JSON object")
	}
	if err := s.value(1, inMessage); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.syntax("more bytes after the message")
	}
	return s.classify()
}

// Valid checks one JSON value as strictly as Parse does.
func Valid(b []byte, limits Limits) error {
	return whole("value", b, limits, nil, func(s *scanner) error { return s.value(1, elsewhere) })
}

// Object is like Valid, for a value that must be an object without certain members.
func Object(b []byte, limits Limits, without ...string) error {
	return whole("object", b, limits, without, func(s *scanner) error {
		if s.i >= len(s.b) || s.b[s.i] != '{' {
			return s.syntax("expected an object")
		}
		return s.object(1, elsewhere)
	})
}

// whole checks that b has what read reads, and nothing more.
func whole(what string, b []byte, limits Limits, without []string, read func(*scanner) error) error {
	limits = limits.orDefault()
	if len(b) > limits.Bytes {
		return fault.New(fault.TooLarge, "%s is %d bytes; the limit is %d", what, len(b), limits.Bytes)
	}
	return scan(scanner{b: b, lim: limits, without: without}, func(s *scanner) error {
		s.space()
		if err := read(s); err != nil {
			return err
		}
		s.space()
		if s.i < len(s.b) {
			return s.syntax("more bytes after the " + what)
		}
		return nil
	})
}

// scanners holds unused readers: they are too large for the stack, and every message
// needs one.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scan calls f with a scanner in the state of from.
func scan(from scanner, f func(*scanner) error) error {
	s := scanners.Get().(*scanner)
	*s = from
	s.names = s.room[:0]
	err := f(s)
	*s = scanner{} // keep no reference to the input
	scanners.Put(s)
	return err
}

func (s *scanner) syntax(what string) error {
	return fault.New(fault.ParseError, "not valid JSON at byte %d: %s", s.i, what)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// value reads one value. depth is its depth if it is a container.
func (s *scanner) value(depth int, where place) error {
	if s.i >= len(s.b) {
		return s.syntax("unexpected end")
	}
	if s.values++; s.values > s.lim.Values {
		return fault.New(fault.TooLarge, "message holds more than %d values", s.lim.Values)
	}
	switch c := s.b[s.i]; c {
	case '{':
		return s.object(depth, where)
	case '[':
		return s.array(depth)
	case '"':
		_, err := s.quoted()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return s.syntax("unexpected character")
	}
}

// open reads the beginning of a container, and all of an empty one.
func (s *scanner) open(depth int, end byte) (empty bool, err error) {
	if depth > s.lim.Depth {
		return false, fault.New(fault.InvalidRequest, "message is nested deeper than %d levels", s.lim.Depth)
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == end {
		s.i++
		return true, nil
	}
	return false, nil
}

// next reads the comma before the next value of a container, or its end.
func (s *scanner) next(end byte) (ended bool, err error) {
	s.space()
	if s.i >= len(s.b) {
		return false, s.syntax("unexpected end")
	}
	c := s.b[s.i]
	if c != ',' && c != end {
		return false, s.syntax("expected , or " + string(rune(end)))
	}
	s.i++
	return c == end, nil
}

func (s *scanner) array(depth int) error {
	if empty, err := s.open(depth, ']'); empty || err != nil {
		return err
	}
	for {
		s.space()
		if err := s.value(depth+1, elsewhere); err != nil {
			return err
		}
		if ended, err := s.next(']'); ended || err != nil {
			return err
		}
	}
}

func (s *scanner) object(depth int, where place) error {
	if empty, err := s.open(depth, '}'); empty || err != nil {
		return err
	}
	first := len(s.names)
	var index map[string]struct{}
	for {
		s.space()
		if s.i >= len(s.b) || s.b[s.i] != '"' {
			return s.syntax("expected a member name")
		}
		raw, err := s.quoted()
		if err != nil {
			return err
		}
		name := unquote(raw)
		if depth == 1 && s.without != nil && slices.Contains(s.without, string(name)) {
			return fault.New(fault.InvalidParams, "member %q is not allowed here", name)
		}
		if index, err = s.unique(first, index, name); err != nil {
			return err
		}
		s.space()
		if s.i >= len(s.b) || s.b[s.i] != ':' {
			return s.syntax("expected :")
		}
		s.i++
		s.space()
		start := s.i
		if err := s.value(depth+1, inside(where, name)); err != nil {
			return err
		}
		if where != elsewhere {
			s.set(where, name, s.b[start:s.i:s.i])
		}
		if ended, err := s.next('}'); ended || err != nil {
			s.names = s.names[:first]
			return err
		}
	}
}

func inside(where place, name []byte) place {
	switch {
	case where == inMessage && string(name) == "params":
		return inParams
	case where == inParams && string(name) == "_meta":
		return inMeta
	}
	return elsewhere
}

// unique adds a name to the object whose names start at first. Small objects
// are compared one by one; larger ones get an index.
func (s *scanner) unique(first int, index map[string]struct{}, name []byte) (map[string]struct{}, error) {
	const small = 16
	n := len(s.names) - first
	if n >= s.lim.Members {
		return nil, fault.New(fault.TooLarge, "an object has more than %d members", s.lim.Members)
	}
	dup := false
	switch {
	case n < small:
		for _, other := range s.names[first:] {
			if bytes.Equal(other, name) {
				dup = true
				break
			}
		}
	default:
		if index == nil {
			index = make(map[string]struct{}, 4*small)
			for _, other := range s.names[first:] {
				index[string(other)] = struct{}{}
			}
		}
		_, dup = index[string(name)]
		index[string(name)] = struct{}{}
	}
	if dup {
		return nil, fault.New(fault.ParseError, "member %q appears twice in one object", fault.Clip(string(name)))
	}
	s.names = append(s.names, name)
	return index, nil
}
