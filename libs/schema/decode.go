package schema

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader is a decoder that is used again and again: validation is on the path
// of every call.
type reader struct {
	in  bytes.Reader
	dec *jsontext.Decoder
}

var readers = sync.Pool{New: func() any {
	r := &reader{}
	r.dec = jsontext.NewDecoder(&r.in)
	return r
}}

// decode reads one JSON value as the validator wants it, with numbers as they
// are written.
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
