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
	limits = limits.orDefault()
	if len(b) > limits.Bytes {
		return fault.New(fault.TooLarge, "value is %d bytes; the limit is %d", len(b), limits.Bytes)
	}
	return scan(scanner{b: b, lim: limits}, func(s *scanner) error {
		s.space()
		if err := s.value(1, elsewhere); err != nil {
			return err
		}
		s.space()
		if s.i < len(s.b) {
			return s.syntax("more bytes after the value")
		}
		return nil
	})
}

// Object is like Valid, for a value that must be an object without certain members.
func Object(b []byte, limits Limits, without ...string) error {
	limits = limits.orDefault()
	if len(b) > limits.Bytes {
		return fault.New(fault.TooLarge, "object is %d bytes; the limit is %d", len(b), limits.Bytes)
	}
	return scan(scanner{b: b, lim: limits, without: without}, func(s *scanner) error {
		s.space()
		if s.i >= len(s.b) || s.b[s.i] != '{' {
			return s.syntax("expected an object")
		}
		if err := s.object(1, elsewhere); err != nil {
			return err
		}
		s.space()
		if s.i < len(s.b) {
			return s.syntax("more bytes after the object")
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

func (s *scanner) tooDeep() error {
	return fault.New(fault.InvalidRequest, "message is nested deeper than %d levels", s.lim.Depth)
}

func (s *scanner) array(depth int) error {
	if depth > s.lim.Depth {
		return s.tooDeep()
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth+1, elsewhere); err != nil {
			return err
		}
		s.space()
		if s.i >= len(s.b) {
			return s.syntax("unexpected end")
		}
		switch s.b[s.i] {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return s.syntax("expected , or ]")
		}
	}
}

func (s *scanner) object(depth int, where place) error {
	if depth > s.lim.Depth {
		return s.tooDeep()
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		return nil
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
		s.space()
		if s.i >= len(s.b) {
			return s.syntax("unexpected end")
		}
		switch s.b[s.i] {
		case ',':
			s.i++
		case '}':
			s.i++
			s.names = s.names[:first]
			return nil
		default:
			return s.syntax("expected , or }")
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
