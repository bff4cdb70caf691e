package github_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/services/github"
)

// said is an upstream that gives a set answer.
type said struct{ answer atomic.Pointer[http.Response] }

func (s *said) RoundTrip(r *http.Request) (*http.Response, error) {
	a := *s.answer.Load()
	a.Request = r
	return &a, nil
}

// strangers gives every call an identity of its own, so that no call is refused because of an
// earlier call's limits.
type strangers struct{ n atomic.Int64 }

func (s *strangers) Token(context.Context, string, string) (string, error) {
	return strconv.FormatInt(s.n.Add(1), 10), nil
}

// Whatever GitHub answers, a tool ends with its own result, without characters that affect a
// reader's display.
func FuzzAnswers(f *testing.F) {
	entries, err := shapes.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for i := range everyTool {
		for _, e := range entries {
			body, err := shapes.ReadFile("testdata/" + e.Name())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), uint16(200), string(body), `<https://x/?page=2>; rel="next"`)
		}
		f.Add(uint8(i), uint16(200), `[null,{"labels":[null],"assets":[null],"parents":[null],"user":null}]`, "<")
		f.Add(uint8(i), uint16(422), `{"message":"\u202e","errors":[null,7,{"field":"\u001b"}]}`, "")
		f.Add(uint8(i), uint16(301), "", "")
		f.Add(uint8(i), uint16(204), "", "")
	}
	upstream := &said{}
	c := start(f, github.Env{Transport: upstream, Tokens: &strangers{}})
	f.Fuzz(func(t *testing.T, which uint8, status uint16, body, link string) {
		if status < 200 || status >= 500 {
			return // repeated, after pauses
		}
		upstream.answer.Store(&http.Response{
			StatusCode: int(status), ContentLength: -1, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Link": {link}, "Location": {link}, "Etag": {"x"}, "Content-Type": {"application/json"}},
		})
		tt := everyTool[int(which)%len(everyTool)]
		frame, err := c.caller.Call(t.Context(), "github", &busv1.Request{Method: "tools/call", Name: tt.tool, Arguments: []byte(tt.arguments)}, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.tool, err)
		}
		var r result
		if err := json.Unmarshal(frame.GetResult().GetJson(), &r); err != nil {
			t.Fatal(err)
		}
		for _, text := range append(texts(t, r.Structured), r.text()) {
			if !utf8.ValidString(text) {
				t.Fatalf("%s: not UTF-8: %q", tt.tool, text)
			}
			for _, c := range strings.ReplaceAll(text, "\r\n", "\n") {
				if unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.Is(unicode.Bidi_Control, c) {
					t.Fatalf("%s: %U is left in %q", tt.tool, c, text)
				}
			}
		}
	})
}

// texts are the strings in a JSON value.
func texts(t *testing.T, value jsontext.Value) (all []string) {
	t.Helper()
	if len(value) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(strings.NewReader(string(value)))
	for {
		token, err := d.ReadToken()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if token.Kind() == '"' {
			all = append(all, token.String())
		}
	}
}
