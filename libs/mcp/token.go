package mcp

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// quoted reads a string and returns it as written, quotes included.
func (s *scanner) quoted() ([]byte, error) {
	start := s.i
	b := s.b
	i := s.i + 1
	escapes := 0 // extra bytes of escapes compared with their values
	for i < len(b) {
		for i+8 <= len(b) && plain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i == len(b) {
			break
		}
		c := b[i]
		switch {
		case c == '"':
			s.i = i + 1
			if i-start-1-escapes > s.lim.StringBytes {
				return nil, fault.New(fault.TooLarge, "a string is longer than %d bytes", s.lim.StringBytes)
			}
			return b[start : i+1], nil
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				s.i = i
				return nil, s.syntax("malformed escape in a string")
			}
			escapes += n - unescaped(b[i:i+n])
			i += n
		case c < 0x20:
			s.i = i
			return nil, s.syntax("control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			_, n := utf8.DecodeRune(b[i:])
			if n == 1 {
				s.i = i
				return nil, s.syntax("not UTF-8")
			}
			i += n
		}
	}
	s.i = len(b)
	return nil, s.syntax("unterminated string")
}

// unescaped returns the number of UTF-8 bytes of a valid escape's value.
func unescaped(e []byte) int {
	switch {
	case len(e) == 2:
		return 1
	case len(e) > 6: // a pair of surrogates
		return 4
	}
	r, _ := hex4(e[2:])
	return utf8.RuneLen(r)
}

// plain reports whether eight bytes are ASCII that needs no escape in a string.
func plain(w uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w|(w-ones*0x20)|(quote-ones)|(slash-ones))&high == 0
}

// escape returns the length of the escape sequence at the start of b, or 0 if it is
// malformed. A surrogate pair counts as one.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r, ok := hex4(b[2:])
		switch {
		case !ok:
			return 0
		case !utf16.IsSurrogate(r):
			return 6
		case len(b) < 12 || b[6] != '\\' || b[7] != 'u':
			return 0
		}
		low, ok := hex4(b[8:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return 0
		}
		return 12
	}
	return 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unquote returns the text of a string that quoted has accepted. It aliases the input if
// there are no escapes.
func unquote(raw []byte) []byte {
	raw = raw[1 : len(raw)-1]
	at := bytes.IndexByte(raw, '\\')
	if at < 0 {
		return raw
	}
	out := append(make([]byte, 0, len(raw)), raw[:at]...)
	for i := at; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := escape(raw[i:])
		switch raw[i+1] {
		case 'u':
			r, _ := hex4(raw[i+2:])
			if n == 12 {
				low, _ := hex4(raw[i+8:])
				r = utf16.DecodeRune(r, low)
			}
			out = utf8.AppendRune(out, r)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, raw[i+1])
		}
		i += n
	}
	return out
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return s.syntax("unexpected character")
	}
	s.i += len(word)
	return nil
}

// number reads a number and bounds it: a huge exponent is cheap to write, but expensive
// to convert to an integer.
func (s *scanner) number() error {
	start := s.i
	digits := func() int {
		n := 0
		for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
			s.i++
			n++
		}
		return n
	}
	if s.b[s.i] == '-' {
		s.i++
	}
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	if n := digits(); n == 0 || zero && n > 1 {
		return s.syntax("malformed number")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if digits() == 0 {
			return s.syntax("malformed number")
		}
	}
	exponent := 0
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if exponent = digits(); exponent == 0 {
			return s.syntax("malformed number")
		}
	}
	if s.i-start > s.lim.NumberBytes || exponent > 3 {
		return fault.New(fault.InvalidParams, "a number is longer than %d characters or its exponent than 3 digits; send it as a string", s.lim.NumberBytes)
	}
	return nil
}
