package schema

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader is a decoder that is reused, because validation is on the path of every
// call.
type reader struct {
	in  bytes.Reader
	dec *jsontext.Decoder
}

var readers = sync.Pool{New: func() any {
	r := &reader{}
	r.dec = jsontext.NewDecoder(&r.in)
	return r
}}

// decode reads one JSON value in the form that the validator needs, with numbers as
// written.
func decode(raw []byte) (any, error) {
	r := readers.Get().(*reader)
	defer func() {
		r.in.Reset(nil)
		readers.Put(r)
	}()
	r.in.Reset(raw)
	r.dec.Reset(&r.in)
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

func (r *reader) value() (any, error) {
	t, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '"':
		return t.String(), nil
	case '0':
		return json.Number(t.String()), nil
	case 't', 'f':
		return t.Bool(), nil
	case '{':
		m := map[string]any{}
		for r.dec.PeekKind() != '}' {
			name, err := r.dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if m[key], err = r.value(); err != nil {
				return nil, err
			}
		}
		_, err := r.dec.ReadToken()
		return m, err
	case '[':
		list := []any{}
		for r.dec.PeekKind() != ']' {
			v, err := r.value()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := r.dec.ReadToken()
		return list, err
	}
	return nil, nil
}

// hugeNumber finds a number beyond maxNumber and returns the JSON Pointer to
// it.
func hugeNumber(v any) (path string, found bool) {
	switch v := v.(type) {
	case json.Number:
		return "", !bounded(string(v))
	case map[string]any:
		for name, child := range v {
			if path, found := hugeNumber(child); found {
				return pointer(name) + path, true
			}
		}
	case []any:
		for i, child := range v {
			if path, found := hugeNumber(child); found {
				return pointer(strconv.Itoa(i)) + path, true
			}
		}
	}
	return "", false
}

func bounded(number string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	return len(number) <= maxNumber && len(strings.TrimLeft(exponent, "+-")) <= 3
}

// escapes are the escapes of JSON Pointers (RFC 6901). It is shared, because creating a
// replacer takes longer than using it.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns one step of a JSON Pointer.
func pointer(token string) string {
	return "/" + escapes.Replace(token)
}

// sameNumber compares two JSON numbers by value.
func sameNumber(a, b string) bool {
	if !bounded(a) || !bounded(b) {
		return false
	}
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok1 && ok2 && x.Cmp(y) == 0
}
