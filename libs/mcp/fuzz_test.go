package mcp_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"a\u0062","method":"tools\/call","params":{"name":"x","arguments":{"a":[1,-2.5e3,true,null,"\ud83d\ude00"]}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"a":{"a":1}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
	`{"a":1,"\u0061":2}`,
	"{\"a\":\"\xc0\xaf\"}",
	`{"a":01,"b":1e999,"c":"\ud800"}`,
	` { } `,
	`{"id":1e3,"jsonrpc":2.0}x`,
}

// plain reads one JSON value with jsontext, which refuses duplicate names and
// bad UTF-8, and returns the members of the top object as written.
func plain(b []byte) (members map[string]string, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if d.PeekKind() != '{' {
		if err = d.SkipValue(); err != nil {
			return nil, err
		}
		_, err = d.ReadToken()
		return nil, noEOF(err)
	}
	members = map[string]string{}
	if _, err = d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		members[key] = string(v)
	}
	if _, err = d.ReadToken(); err != nil {
		return nil, err
	}
	_, err = d.ReadToken()
	return members, noEOF(err)
}

// noEOF turns the end of input, which is what must come last, into success.
func noEOF(err error) error {
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case err == nil:
		return errors.New("more after the value")
	}
	return err
}

// FuzzParse compares the reader with jsontext: what it accepts, jsontext
// accepts and reads alike; what it calls malformed, jsontext refuses.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	// Limits far beyond the inputs, so that only syntax and protocol decide;
	// depth stays below jsontext's own limit.
	lim := mcp.Limits{Bytes: 1 << 30, Depth: 5000, Values: 1 << 30, Members: 1 << 30, NumberBytes: 1 << 30, StringBytes: 1 << 30}
	f.Fuzz(func(t *testing.T, in []byte) {
		kept := bytes.Clone(in)
		for _, l := range []mcp.Limits{lim, {}} {
			m, err := mcp.Parse(in, l)
			if !bytes.Equal(in, kept) {
				t.Fatal("the input was changed")
			}
			members, plainErr := plain(in)
			if err != nil {
				var refusal *fault.Error
				if !errors.As(err, &refusal) || refusal.Executed != fault.No {
					t.Fatalf("refused by %T: %v", err, err)
				}
				if !utf8.ValidString(refusal.Message) || len(refusal.Message) > 300 {
					t.Errorf("message %q", refusal.Message)
				}
				if refusal.Reason == fault.ParseError && plainErr == nil {
					t.Errorf("refused as malformed, but is not: %v", err)
				}
				continue
			}
			if plainErr != nil {
				t.Fatalf("accepted, but jsontext says: %v", plainErr)
			}
			if string(m.ID) != members["id"] || string(m.Params) != members["params"] ||
				string(m.Result) != members["result"] || string(m.Error) != members["error"] {
				t.Errorf("read %+v, want %v", m, members)
			}
			method, _ := jsontext.AppendUnquote(nil, members["method"])
			if m.Kind != mcp.Response && m.Method != string(method) {
				t.Errorf("method %q, want %q", m.Method, method)
			}
			if m.Kind == mcp.Invalid {
				t.Error("accepted without a kind")
			}
			if m.Params != nil {
				params, err := plain(m.Params)
				if err != nil {
					t.Fatal(err)
				}
				name, _ := jsontext.AppendUnquote(nil, params["name"])
				if string(m.P.Arguments) != params["arguments"] || string(m.P.Meta) != params["_meta"] || m.P.Name != string(name) {
					t.Errorf("read %+v, want %v", m.P, params)
				}
			}
		}
		if err := mcp.Valid(in, lim); (err == nil) != (plainValid(in)) && !fault.Is(err, fault.InvalidParams) {
			t.Errorf("Valid says %v, jsontext %v", err, plainValid(in))
		}
	})
}

func plainValid(b []byte) bool {
	_, err := plain(b)
	return err == nil
}

func FuzzHeader(f *testing.F) {
	for _, s := range []string{"", "us-west1", " x ", "=?base64?literal?=", "=?base64?YQ==?=", "=?base64?=", "Hello, 世界", "\x00", "a\r\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if text, err := mcp.DecodeHeader(s); err == nil && !utf8.ValidString(text) {
			t.Errorf("%q decodes to bad UTF-8", s)
		}
		header := mcp.EncodeHeader(s)
		for i := range len(header) {
			if c := header[i]; c != '\t' && (c < ' ' || c > '~') {
				t.Fatalf("%q is no header value", header)
			}
		}
		if strings.Trim(header, " \t") != header {
			t.Errorf("%q loses its ends on the way", header)
		}
		text, err := mcp.DecodeHeader(header)
		if utf8.ValidString(s) && (err != nil || text != s) {
			t.Errorf("%q comes back as %q, %v", s, text, err)
		}
		if !utf8.ValidString(s) && err == nil {
			t.Errorf("bad UTF-8 %q accepted as %q", s, text)
		}
	})
}

// FuzzParseBatch never panics, and takes a batch only if every message of it
// is one that Parse takes or refuses alone.
func FuzzParseBatch(f *testing.F) {
	for _, seed := range []string{`[]`, `[{}]`, `[1,"x",null]`, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`, `[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := mcp.ParseBatch(b, mcp.Limits{})
		if err != nil {
			return
		}
		if len(entries) == 0 || len(entries) > mcp.MaxBatch || !mcp.IsBatch(b) {
			t.Fatalf("%d entries of %q", len(entries), b)
		}
		for _, e := range entries {
			if (e.Err == nil) == (e.Message.Kind == mcp.Invalid) {
				t.Fatalf("kind %v, error %v", e.Message.Kind, e.Err)
			}
		}
	})
}
