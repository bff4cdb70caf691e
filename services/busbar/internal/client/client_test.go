package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, want string }{
		{"host and port", "http://localhost:8080", "http://localhost:8080/mcp"},
		{"slash", "http://localhost:8080/", "http://localhost:8080/mcp"},
		{"path", "http://localhost:8080/mcp", "http://localhost:8080/mcp"},
		{"other path", "https://example.com/edge/v1", "https://example.com/edge/v1"},
		{"query", "http://h?a=b", "http://h/mcp?a=b"},
		{"fragment", "http://h/#x", "http://h/mcp"},
		{"no scheme", "localhost:8080", "http://localhost:8080/mcp"},
		{"IPv6", "http://[::1]:8080", "http://[::1]:8080/mcp"},
		{"other scheme", "ftp://h", ""},
		{"no host", "http:///mcp", ""},
		{"empty", "", ""},
		{"not a URL", "http://a b", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u, err := (&Client{URL: tt.url}).endpoint()
			var usage *UsageError
			switch {
			case tt.want == "" && !errors.As(err, &usage):
				t.Errorf("got %v, %v; want a UsageError", u, err)
			case tt.want != "" && (err != nil || u.String() != tt.want):
				t.Errorf("got %v, %v; want %s", u, err, tt.want)
			}
		})
	}
}

func TestToolsFollowsCursors(t *testing.T) {
	t.Parallel()
	// An empty cursor is a cursor; null is the end.
	pages := map[string]string{
		"first": `{"resultType":"complete","tools":[{"name":"c","inputSchema":{"type":"object"}}],"nextCursor":""}`,
		"":      `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"x\"y"}`,
		`x"y`:   `{"resultType":"complete","tools":[{"name":"b","inputSchema":{"type":"object"}}],"nextCursor":null}`,
	}
	e := newEdge(t, handlers{"tools/list": func(w http.ResponseWriter, r received) {
		page := "first"
		if r.Params.Cursor != nil {
			page = *r.Params.Cursor
		}
		if page == "" { // a stream is as good an answer
			r.events(w, r.response(pages[page]))
			return
		}
		r.result(w, pages[page])
	}})
	tools, err := (&Client{URL: e.URL}).Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	if want := []string{"c", "a", "b"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestToolsThatNeverEnd(t *testing.T) {
	t.Parallel()
	e := newEdge(t, handlers{"tools/list": answers(`{"tools":[],"nextCursor":"again"}`)})
	_, err := (&Client{URL: e.URL}).Tools(t.Context())
	var protocol *ProtocolError
	if !errors.As(err, &protocol) {
		t.Errorf("got %v, want a ProtocolError", err)
	}
}

func TestToolsLeavesInvalidOnesOut(t *testing.T) {
	t.Parallel()
	e := newEdge(t, handlers{"tools/list": lists(
		`{"name":"number","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}`,
		echo,
		`{"name":"twice","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}}`,
		`{"name":"items","inputSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","\u0078-mcp-header":"A"}}}}}`,
		`{"name":"title","title":5,"inputSchema":{"type":"object"}}`,
		`{"inputSchema":{"type":"object"}}`,
	)})
	var warnings []string
	c := &Client{URL: e.URL, Warn: func(m string) { warnings = append(warnings, m) }}
	tools, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(tools) != 1 || tools[0].Name != "echo" || string(tools[0].Raw) != echo {
		t.Errorf("got %v, want echo alone", tools)
	}
	if len(warnings) != 5 || !strings.Contains(warnings[0], `"number"`) {
		t.Errorf("warnings: %q", warnings)
	}
	var rejected *RejectedToolError
	if _, err := c.Call(t.Context(), "number", nil, nil); !errors.As(err, &rejected) {
		t.Errorf("got %v, want a RejectedToolError", err)
	}
	if n := len(e.got("tools/call")); n != 0 {
		t.Errorf("%d calls of a rejected tool", n)
	}
}

func TestCallSendsHeaderAndMirror(t *testing.T) {
	t.Parallel()
	const sql = `{"name":"sql zażółć","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
	e := newEdge(t, handlers{"tools/list": lists(sql), "tools/call": answers(`{"content":[]}`)})
	c := &Client{URL: e.URL, Header: http.Header{"authorization": {"Bearer x"}, "Mcp-Method": {"no"}}}
	if _, err := c.Call(t.Context(), "sql zażółć", []byte(" {\"region\": \"us\\u002dwest1\" , \"n\":1e2} "), nil); err != nil {
		t.Fatal(err)
	}
	r := e.got("tools/call")[0]
	if got := r.header.Get("Mcp-Param-Region"); got != "us-west1" {
		t.Errorf("Mcp-Param-Region: %q", got)
	}
	if got := r.header.Get("Authorization"); got != "Bearer x" {
		t.Errorf("Authorization: %q", got)
	}
	if got := string(r.Params.Arguments); got != `{"region":"us-west1","n":1e2}` {
		t.Errorf("arguments: %s", got)
	}
	if len(r.Params.Meta["progressToken"]) == 0 {
		t.Error("no progress token")
	}
	// A second call knows the list.
	if _, err := c.Call(t.Context(), "sql zażółć", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(e.got("tools/call")[1].Params.Arguments); got != "{}" {
		t.Errorf("no arguments: %s", got)
	}
	if n := len(e.got("tools/list")); n != 1 {
		t.Errorf("%d lists", n)
	}
}

// An idempotency key goes with the call, and with no call that has none.
func TestCallOnce(t *testing.T) {
	t.Parallel()
	for once, want := range map[string]string{"order-4711": `"order-4711"`, "": ""} {
		e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": answers(`{"content":[]}`)})
		o := CallOptions{Options: Options{URL: e.URL}, Name: "echo", Arguments: []string{`{"text":"a"}`}, Once: once}
		if code := RunCall(t.Context(), o, nil, io.Discard, io.Discard); code != ExitOK {
			t.Fatalf("exit code %d", code)
		}
		got, there := e.got("tools/call")[0].Params.Meta["io.github.busbar-mcp/idempotencyKey"]
		if string(got) != want || there != (want != "") {
			t.Errorf("with the key %q: %s", once, got)
		}
	}
}

func TestCallAfterHeaderMismatch(t *testing.T) {
	t.Parallel()
	const annotated = `{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}}`
	tests := []struct {
		name  string
		lists []string // as fetched, one after another
		fails bool
	}{
		{"the list has changed", []string{echo, annotated}, false},
		{"the list is the same", []string{echo, echo}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			left := tt.lists
			e := newEdge(t, handlers{
				"tools/list": func(w http.ResponseWriter, r received) {
					lists(left[0])(w, r)
					left = left[1:]
				},
				"tools/call": func(w http.ResponseWriter, r received) {
					if r.header.Get("Mcp-Param-Text") != "hi" {
						r.fail(w, http.StatusBadRequest, `{"code":-32020,"message":"Mcp-Param-Text is missing"}`)
						return
					}
					r.result(w, `{"content":[{"type":"text","text":"hi"}]}`)
				},
			})
			_, err := (&Client{URL: e.URL}).Call(t.Context(), "echo", []byte(`{"text":"hi"}`), nil)
			var rpc *RPCError
			if errors.As(err, &rpc) != tt.fails || (err != nil) != tt.fails {
				t.Errorf("got %v", err)
			}
			if calls, lists := len(e.got("tools/call")), len(e.got("tools/list")); calls != 2 || lists != 2 {
				t.Errorf("%d calls, %d lists; want 2 of each", calls, lists)
			}
		})
	}
}

func TestCallProgress(t *testing.T) {
	t.Parallel()
	e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": func(w http.ResponseWriter, r received) {
		r.events(w,
			r.progress(`"progress":1`),
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"other","progress":7}}`,
			r.progress(`"progress":"odd"`),
			r.progress(`"progress":1.5,"total":3,"message":"half"`),
			r.response(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`),
			r.progress(`"progress":9`),
		)
	}})
	var heard []string
	res, err := (&Client{URL: e.URL}).Call(t.Context(), "echo", nil, func(p Progress) { heard = append(heard, progressText(p)) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", " 50% (1.5/3) half"}; !slices.Equal(heard, want) {
		t.Errorf("got %q, want %q", heard, want)
	}
	if res.Content[0].Text != "done" {
		t.Errorf("got %v", res.Content)
	}
}

func TestCancelClosesTheStream(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": func(w http.ResponseWriter, r received) {
		r.events(w, r.progress(`"progress":1`))
		<-r.http.Context().Done()
		close(closed)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := (&Client{URL: e.URL}).Call(ctx, "echo", nil, func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	<-closed
}

func TestEventReader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         []string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"byte order mark", "\ufeffdata: a\n\n", []string{"a"}},
		{"several lines", "data: a\ndata:b\ndata\ndata:  c\n\n", []string{"a\nb\n\n c"}},
		{"comments and other fields", ": hi\n\nid: 4\nretry: 5\ndata: a\nodd: x\n:\n\n", []string{"a"}},
		{"event names", "event: message\ndata: a\n\nevent: ping\ndata: b\n\nevent\ndata: c\n\n", []string{"a", "c"}},
		{"no data", "event: message\n\ndata:\n\ndata: a\n\n", []string{"a"}},
		{"cut off", "data: a\n\ndata: b\n", []string{"a"}},
		{"empty", "", nil},
		{"short", "\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newEventReader(strings.NewReader(tt.stream), 100)
			var got []string
			data, err := r.next()
			for ; err == nil; data, err = r.next() {
				got = append(got, string(data))
			}
			if !errors.Is(err, io.EOF) || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		for _, stream := range []string{"data: 0123456789", "data: 01\ndata: 23\ndata: 45\n\n"} {
			if _, err := newEventReader(strings.NewReader(stream), 9).next(); !errors.Is(err, errTooLong) {
				t.Errorf("%q: got %v", stream, err)
			}
		}
	})
	t.Run("an event does not wait for the next byte", func(t *testing.T) {
		t.Parallel()
		in, out := io.Pipe()
		go func() { _, _ = out.Write([]byte("data: a\r\n\r")) }() // the test fails without it
		if got, err := newEventReader(in, 100).next(); err != nil || string(got) != "a" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
