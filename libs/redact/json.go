// Package redact removes secrets from JSON and text, so that they can be kept and shown. It replaces the
// values of members with secret names, at any depth, and anything that has the form of a credential. Start
// at JSON and Text.
package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Marker replaces a secret.
const Marker = "***REDACTED***"

const quotedMarker = `"` + Marker + `"`

// Note says what else, besides secrets, is missing from a document.
type Note string

// Notes. The empty note means that nothing is missing.
const (
	// Cut: parts are missing, because the whole is larger than the limit.
	Cut Note = "cut"
	// Unreadable: it is not JSON, so all of it is missing.
	Unreadable Note = "unreadable"
)

const (
	// maxString is how many bytes of a string are kept.
	maxString = 1024
	// maxNumber is how many bytes of a number are kept.
	maxNumber = 64
	// overlap is read beyond that, so that no half of a secret is kept.
	overlap = 4096
	// maxDepth bounds the nesting of containers; deeper ones are dropped.
	maxDepth = 64
	// maxNested bounds the nesting of documents inside strings; deeper ones are treated as
	// text.
	maxNested = 3
)

// JSON returns a JSON value without its secrets and white space. The result is valid and has
// about limit bytes at most. If raw is not valid JSON by RFC 8259, with unique names, nothing
// is returned.
func JSON(raw []byte, limit int) ([]byte, Note) { return document(raw, limit, maxNested) }

// decoders are expensive to create.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

func document(raw []byte, limit, nested int) ([]byte, Note) {
	in := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(in)
	in.Reset(bytes.NewBuffer(raw)) // the buffer reads raw without a copy
	w := writer{in: in, limit: limit, nested: nested, out: make([]byte, 0, min(len(raw), limit))}
	if err := w.value("", 0); err != nil {
		return nil, Unreadable
	}
	if _, err := w.in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, Unreadable
	}
	if w.cut {
		return w.out, Cut
	}
	return w.out, ""
}

type writer struct {
	in    *jsontext.Decoder
	out   []byte
	limit int
	// nested is how many levels of documents inside strings may still follow.
	nested int
	cut    bool
	// inArray is set if the value is an element of an array.
	inArray bool
}

// full reports whether the limit is reached; then the rest is dropped.
func (w *writer) full() bool {
	if len(w.out) >= w.limit {
		w.cut = true
	}
	return len(w.out) >= w.limit
}

// value writes the next value. before is the preceding text in an array, which may be the
// flag of this argument.
func (w *writer) value(before string, depth int) error {
	switch w.in.PeekKind() {
	case '{':
		return w.object(depth)
	case '[':
		return w.array(depth)
	case '"':
		token, err := w.in.ReadToken()
		if err != nil {
			return err
		}
		if isFlag(before) {
			w.out = append(w.out, quotedMarker...)
			return nil
		}
		return w.text(token.String())
	}
	v, err := w.in.ReadValue()
	if len(v) > maxNumber {
		v, w.cut = jsontext.Value(`"…"`), true
	}
	w.out = append(w.out, v...)
	return err
}

// text writes a string.
func (w *writer) text(s string) error {
	kept := s
	if len(kept) > maxString+overlap {
		kept = kept[:maxString+overlap]
	}
	if inside, ok := w.document(kept); ok {
		kept = inside
	} else {
		kept = Text(kept)
	}
	if most := min(maxString, max(w.limit-len(w.out), 32)); len(kept) > most {
		for most > 0 && !utf8.RuneStart(kept[most]) {
			most--
		}
		kept, w.cut = kept[:most]+"…", true
	}
	// The cut above may have split a character.
	out, err := jsontext.AppendQuote(w.out, strings.ToValidUTF8(kept, ""))
	if err == nil {
		w.out = out
	}
	return err
}

// document redacts a string that contains JSON.
func (w *writer) document(s string) (string, bool) {
	if w.nested == 0 || len(s) > maxString+overlap-1 {
		return "", false
	}
	if start := strings.TrimLeft(s, " \t\r\n"); start == "" || start[0] != '{' && start[0] != '[' {
		return "", false
	}
	out, note := document([]byte(s), maxString, w.nested-1)
	w.cut = w.cut || note == Cut
	return string(out), note != Unreadable
}

// namers are members that name a secret; values are members with its value.
var (
	namers = set("name", "key", "header", "k", "id", "field", "variable", "parameter", "param")
	values = set("value", "val", "v")
)

// next begins a member or an element: with a comma, unless it is the first. Beyond the limits of
// size and depth it skips the value.
func (w *writer) next(first bool, depth int) (skipped bool, err error) {
	if w.full() || depth >= maxDepth {
		w.cut = true
		return true, w.in.SkipValue()
	}
	if !first {
		w.out = append(w.out, ',')
	}
	return false, nil
}

func (w *writer) object(depth int) error {
	if _, err := w.in.ReadToken(); err != nil {
		return err
	}
	w.out = append(w.out, '{')
	inner := w.inArray
	w.inArray = false
	defer func() { w.inArray = inner }()
	// Some write {"name": "password", "value": "…"}, in either order; see namers.
	var named bool
	valueStart, valueEnd := -1, -1
	first := true
	for w.in.PeekKind() != '}' {
		token, err := w.in.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if skipped, err := w.next(first, depth); err != nil {
			return err
		} else if skipped {
			continue
		}
		first = false
		if err := w.text(name); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		start := len(w.out)
		switch kind := w.in.PeekKind(); {
		case Secret(name) && kind != 'n':
			if err := w.in.SkipValue(); err != nil {
				return err
			}
			w.out = append(w.out, quotedMarker...)
			continue
		case kind == '"' && namers[strings.ToLower(name)]:
			token, err := w.in.ReadToken()
			if err != nil {
				return err
			}
			s := token.String()
			named = named || Secret(s)
			if err := w.text(s); err != nil {
				return err
			}
		default:
			if err := w.value("", depth+1); err != nil {
				return err
			}
			if values[strings.ToLower(name)] {
				valueStart, valueEnd = start, len(w.out)
			}
		}
	}
	if _, err := w.in.ReadToken(); err != nil {
		return err
	}
	if named && valueStart >= 0 {
		rest := append([]byte(quotedMarker), w.out[valueEnd:]...)
		w.out = append(w.out[:valueStart], rest...)
	}
	w.out = append(w.out, '}')
	return nil
}

func (w *writer) array(depth int) error {
	if _, err := w.in.ReadToken(); err != nil {
		return err
	}
	w.out = append(w.out, '[')
	before, first := "", true
	// Headers and the like may be pairs in an array: ["Authorization", "…"].
	inner := w.inArray
	w.inArray = true
	defer func() { w.inArray = inner }()
	named, second, n := false, -1, 0
	for w.in.PeekKind() != ']' {
		if skipped, err := w.next(first, depth); err != nil {
			return err
		} else if skipped {
			continue
		}
		first = false
		start, text := len(w.out), w.in.PeekKind() == '"'
		if n++; n == 2 && text {
			second = start
		}
		if err := w.value(before, depth+1); err != nil {
			return err
		}
		before = ""
		if text {
			before = strings.Trim(string(w.out[start:]), `"`)
			named = named || n == 1 && Secret(before)
		}
	}
	if inner && named && n == 2 && second > 0 {
		w.out = append(w.out[:second], quotedMarker...)
	}
	_, err := w.in.ReadToken()
	w.out = append(w.out, ']')
	return err
}

// isFlag reports whether an argument of a command names a secret that follows, such as
// --password.
func isFlag(s string) bool { return strings.HasPrefix(s, "-") && Secret(s) }
