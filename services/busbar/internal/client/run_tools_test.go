package client

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

const entities = `{"name":"extract_entities","title":"Extract entities","description":"Finds people, places and organisations in a text.\nKeeps their order.","inputSchema":{"type":"object","properties":{` +
	`"text":{"type":"string","description":"The text to read, in any of the languages that the service knows."},` +
	`"language":{"type":"string","enum":["en","pl","ru"],"default":"en"},` +
	`"limits":{"type":["array","null"],"items":{"type":"integer"},"description":"世界"},"extra":true},"required":["text"]},"annotations":{"readOnlyHint":true}}`

const drop = `{"name":"drop","annotations":{"title":"Drop it","destructiveHint":true},"inputSchema":{"type":"object"}}`

func TestRunTools(t *testing.T) {
	t.Parallel()
	colour := Options{Terminal: true, Width: 60}
	tests := []struct {
		name  string
		tools []string
		opts  Options
		want  string
	}{
		{"plain", []string{entities, drop}, Options{},
			"extract_entities\tFinds people, places and organisations in a text. Keeps their order.\ndrop\tDrop it\n"},
		{"plain, hostile", []string{`{"name":"a\tb","description":"x\u001b[31m\ny","inputSchema":{}}`}, Options{}, "a b\tx\\x1b[31m y\n"},
		{"json", []string{entities, drop}, Options{JSON: true}, "[" + entities + "," + drop + "]\n"},
		{"json, none", nil, Options{JSON: true}, "[]\n"},
		{"json over several lines", []string{"{\"name\":\"a\",\n \"inputSchema\":{\"n\": 1.0}}"}, Options{JSON: true}, `[{"name":"a","inputSchema":{"n":1.0}}]` + "\n"},
		{"json on a terminal", []string{"{\"name\":\"a\u009b\",\"inputSchema\":{}}"}, Options{JSON: true, Terminal: true}, `[{"name":"a\u009b","inputSchema":{}}]` + "\n"},
		{"table", []string{entities, drop}, Options{Terminal: true, Width: 60, Getenv: func(k string) string {
			return map[string]string{"NO_COLOR": "1"}[k]
		}}, `extract_entities  Finds people, places and organisations in…
drop              [destructive] Drop it
`},
		{"colour", []string{`{"name":"a\u001b[2J","description":"\u009bb","inputSchema":{}}`}, colour, "\x1b[1ma\\x1b[2J\x1b[0m  \\u009bb\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.URL = newEdge(t, handlers{"tools/list": lists(tt.tools...)}).URL
			runTools(t, tt.opts).check(t, ExitOK, tt.want)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		e := newEdge(t, handlers{"tools/list": lists()})
		runTools(t, Options{URL: e.URL}).check(t, ExitOK, "", e.URL+"/mcp offers no tools\n")
	})
	t.Run("one left out", func(t *testing.T) {
		t.Parallel()
		e := newEdge(t, handlers{"tools/list": lists(drop, `{"name":"odd","title":1}`)})
		runTools(t, Options{URL: e.URL}).check(t, ExitOK, "drop\tDrop it\n", `warning: tool "odd" left out`)
	})
	t.Run("no tools method", func(t *testing.T) {
		t.Parallel()
		e := newEdge(t, nil)
		runTools(t, Options{URL: e.URL}).check(t, ExitRefused, "", "error: no such method\n", "reason: method_not_found\n", "next: this server has no tools")
	})
	t.Run("bad URL", func(t *testing.T) {
		t.Parallel()
		runTools(t, Options{URL: "ftp://x"}).check(t, ExitUsage, "", "scheme")
	})
}

func TestRunToolsOne(t *testing.T) {
	t.Parallel()
	one := func(o ToolsOptions, tools ...string) outcome {
		o.URL, o.Getenv = newEdge(t, handlers{"tools/list": lists(tools...)}).URL, noEnv
		var out, errs bytes.Buffer
		code := RunTools(t.Context(), o, &out, &errs)
		return outcome{code, out.String(), errs.String()}
	}
	const details = `extract_entities  [read-only]  Extract entities
  Finds people, places and organisations in a text.
  Keeps their order.

  read-only    yes

  takes
    text*      string          The text to read, in any of
                               the languages that the
                               service knows.
    language   en|pl|ru        (default "en")
    limits     integer[]|null  世界
    extra      any

  * required

  try  busbar call extract_entities text=…
`
	one(ToolsOptions{Options: Options{Width: 60}, Name: "extract_entities"}, entities, drop).check(t, ExitOK, details)
	narrow := one(ToolsOptions{Options: Options{Width: 36}, Name: "extract_entities"}, entities)
	if narrow.code != ExitOK || !strings.Contains(narrow.stdout, "    text*      string\n        The text to read, in any of\n") {
		t.Errorf("%+v", narrow)
	}
	one(ToolsOptions{Options: Options{JSON: true}, Name: "drop"}, entities, drop).check(t, ExitOK, drop+"\n")
	one(ToolsOptions{Name: "dorp"}, entities, drop).check(t, ExitRefused, "", "there is no tool \"dorp\"; did you mean drop?")
	one(ToolsOptions{Name: "elsewhere"}, entities, drop).check(t, ExitRefused, "", "there is no tool \"elsewhere\"; see `busbar tools` for what there is")
	one(ToolsOptions{Service: "text"}, drop).check(t, ExitRefused, "", "HTTP 404")
}

func TestRunToolsWithoutMCP(t *testing.T) {
	t.Parallel()
	page := func(status int, contentType, body string) func(http.ResponseWriter, received) {
		return func(w http.ResponseWriter, _ received) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", map[bool]string{true: "http://elsewhere/"}[status == http.StatusTemporaryRedirect])
			w.WriteHeader(status)
			if _, err := w.Write([]byte(body)); err != nil {
				t.Error(err)
			}
		}
	}
	tests := []struct {
		name   string
		handle func(http.ResponseWriter, received)
		code   int
		stderr []string
	}{
		{"web page", page(200, "text/html", "<p>hi"), ExitTransport, []string{"HTTP 200 OK", "next: check that --url"}},
		{"not found", page(404, "text/plain; charset=utf-8", "404 page\x1b not found\n"), ExitRefused, []string{`HTTP 404 Not Found: 404 page\x1b not found`, "--url"}},
		{"other JSON", page(404, "application/json", `{"detail":"Not Found"}`), ExitRefused, []string{"HTTP 404 Not Found\n"}},
		{"credentials", page(401, "text/plain", ""), ExitRefused, []string{"HTTP 401 Unauthorized\n", "BUSBAR_TOKEN"}},
		{"redirect", page(307, "text/html", ""), ExitRefused, []string{"if you trust http://elsewhere/, give it as --url"}},
		{"gateway", page(502, "text/html", ""), ExitTransport, []string{"HTTP 502 Bad Gateway"}},
		{"broken JSON", page(200, "application/json", `{"jsonrpc":"2.0",`), ExitTransport, []string{"not a JSON-RPC response"}},
		{"other id", page(200, "application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`), ExitTransport, []string{"the answer is to request 77, not 1"}},
		{"malformed list", answers(`{"tools":{}}`), ExitTransport, []string{"the list of tools is malformed"}},
		{"question instead of a list", answers(`{"resultType":"input_required"}`), ExitTransport, []string{`result type "input_required"`}},
		{"error without a code", fails(200, `{"message":"x"}`), ExitTransport, []string{"the error has no code"}},
		{"error without an id", page(403, "application/json", `{"jsonrpc":"2.0","error":{"code":1403,"message":"no"}}`), ExitRefused, []string{"error: no\n", "reason: forbidden"}},
		{"other version", fails(400, `{"code":-32022,"message":"unsupported","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}`), ExitRefused,
			[]string{`supported: ["2025-11-25"]`, "requested: 2026-07-28", "next: this client speaks MCP 2026-07-28 only"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, handlers{"tools/list": tt.handle})
			o := runTools(t, Options{URL: e.URL})
			o.check(t, tt.code, "", tt.stderr...)
			if strings.Contains(o.stderr, "executed") {
				t.Errorf("a list runs nothing: %s", o.stderr)
			}
		})
	}
}
