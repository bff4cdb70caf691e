package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunCallShowsResults(t *testing.T) {
	t.Parallel()
	const twins = `{"resultType":"complete","content":[{"type":"text","text":"{\"b\": 1.50, \"a\":\"\\u007a\"}"}],"structuredContent":{"a":"z","b":1.5}}`
	const media = `{"content":[{"type":"text","text":"two\nlines"},{"type":"image","data":"AAECAwQ=","mimeType":"image/png"},{"type":"audio","data":"AA=="},` +
		`{"type":"resource_link","uri":"file:///a","name":"a","title":"A\u001b","mimeType":"text/plain","description":"first"},` +
		`{"type":"resource","resource":{"uri":"file:///b","mimeType":"text/x","text":"inside"}},` +
		`{"type":"resource","resource":{"uri":"file:///c","blob":"AAEC"}},{"type":"hologram"}],"structuredContent":[1,2]}`
	const notes = "[image image/png, 5 bytes]\n[audio of unknown type, 1 byte]\n[link A\\x1b file:///a (text/plain) - first]\n" +
		"[resource file:///b (text/x)]\ninside\n[resource file:///c, 3 bytes]\n[content of type \"hologram\"; --json shows it]\n"
	hostile := `{"content":[{"type":"text","text":"\u001b]0;owned\u0007` + "\u009b\u202e" + `\r\ttab\n"}],"structuredContent":{"k":"` + "\u009b" + `\u001b"}}`
	terminal := Options{Terminal: true, ErrTerminal: true}
	tests := []struct {
		name, result string
		opts         Options
		code         int
		stdout       string
		stderr       []string
	}{
		{"text", `{"content":[{"type":"text","text":"hello"}]}`, terminal, ExitOK, "hello\n", nil},
		{"text with its line end", `{"content":[{"type":"text","text":"hello\n"}]}`, Options{}, ExitOK, "hello\n", nil},
		{"nothing", `{"content":[]}`, terminal, ExitOK, "", nil},
		{"twins on a terminal", twins, terminal, ExitOK, "{\n  \"a\": \"z\",\n  \"b\": 1.5\n}\n", nil},
		{"twins", twins, Options{}, ExitOK, `{"a":"z","b":1.5}` + "\n", nil},
		{"twin string", `{"content":[{"type":"text","text":"hi"}],"structuredContent":"hi"}`, terminal, ExitOK, "hi\n", nil},
		{"twin string, quoted", `{"content":[{"type":"text","text":"\"hi\""}],"structuredContent":"hi"}`, terminal, ExitOK, "\"hi\"\n", nil},
		{"other text", `{"content":[{"type":"text","text":"two users"}],"structuredContent":{"n":2}}`, terminal, ExitOK, "two users\n{\n  \"n\": 2\n}\n", nil},
		{"two texts", `{"content":[{"type":"text","text":"2"},{"type":"text","text":"2"}],"structuredContent":2}`, Options{}, ExitOK, "2\n2\n2\n", nil},
		{"big integers differ", `{"content":[{"type":"text","text":"9007199254740993"}],"structuredContent":9007199254740992}`, Options{}, ExitOK, "9007199254740993\n9007199254740992\n", nil},
		{"structured alone, null", `{"content":[],"structuredContent":null}`, Options{}, ExitOK, "null\n", nil},
		{"media on a terminal", media, terminal, ExitOK, "two\nlines\n" + notes + "[\n  1,\n  2\n]\n", nil},
		{"media", media, Options{}, ExitOK, "two\nlines\n" + notes + "[1,2]\n", nil},
		{"hostile on a terminal", hostile, terminal, ExitOK, "\\x1b]0;owned\\x07\\u009b\\u202e\\x0d\ttab\n{\n  \"k\": \"\\u009b\\u001b\"\n}\n", nil},
		{"hostile", hostile, Options{}, ExitOK, "\x1b]0;owned\x07\u009b\u202e\r\ttab\n{\"k\":\"\u009b\\u001b\"}\n", nil},
		{"json", hostile, Options{JSON: true}, ExitOK, hostile + "\n", nil},
		{"json over lines", "{\"content\" : [ ],\n \"x\": 1.0}", Options{JSON: true}, ExitOK, "{\"content\":[],\"x\":1.0}\n", nil},
		{"json on a terminal", "{\"content\" : [],\"x\":\"\u009b\"}", Options{JSON: true, Terminal: true}, ExitOK, "{\"content\" : [],\"x\":\"\\u009b\"}\n", nil},
		{"tool error", `{"content":[{"type":"text","text":"no such city\u001b"}],"isError":true}`, Options{}, ExitToolError, "", []string{"tool error: no such city\\x1b\n"}},
		{"arguments that the edge refused", `{"content":[{"type":"text","text":"arguments/text: got number"}],"isError":true,"_meta":{"io.github.busbar-mcp/failure":{"reason":"invalid_params","executed":"no"}}}`, Options{}, ExitRefused, "",
			[]string{"error: arguments/text: got number\n", "executed: no - nothing ran", "next: compare the arguments with `busbar tools echo`"}},
		{"the same as json", `{"content":[],"isError":true,"_meta":{"io.github.busbar-mcp/failure":{"executed":"no"}}}`, Options{JSON: true}, ExitRefused, `{"content":[],"isError":true,"_meta":{"io.github.busbar-mcp/failure":{"executed":"no"}}}` + "\n", nil},
		{"a failure of another kind", `{"content":[],"isError":true,"_meta":{"io.github.busbar-mcp/failure":7}}`, Options{}, ExitToolError, "", []string{"did not say why"}},
		{"tool error without words", `{"content":[],"isError":true}`, Options{}, ExitToolError, "", []string{"did not say why"}},
		{"tool error as json", `{"content":[],"isError":true}`, Options{JSON: true}, ExitToolError, `{"content":[],"isError":true}` + "\n", nil},
		{"unknown type of result", `{"resultType":"other","content":[]}`, Options{}, ExitTransport, "", []string{`unknown type of result "other"`, "executed: unknown"}},
		{"malformed result", `{"content":"x"}`, Options{}, ExitTransport, "", []string{"the result is malformed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": answers(tt.result)})
			tt.opts.URL = e.URL
			o := runCall(t, CallOptions{Options: tt.opts, Name: "echo"}, "")
			o.check(t, tt.code, tt.stdout, tt.stderr...)
		})
	}
}

func TestRunCallInputRequired(t *testing.T) {
	t.Parallel()
	const question = `{"resultType":"input_required","inputRequests":{` +
		`"login":{"method":"elicitation/create","params":{"mode":"url","message":"Who are\u001b you?","url":"https://example.com/login"}},` +
		`"capital":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}}]}},` +
		`"roots":{"method":"roots/list"}},"requestState":"s"}`
	h := handlers{"tools/list": lists(echo), "tools/call": answers(question)}
	want := []string{"cannot give", "  login: Who are\\x1b you?\n    https://example.com/login\n  capital: Capital of France?\n  roots: (roots/list)\n"}
	runCall(t, CallOptions{Options: Options{URL: newEdge(t, h).URL}, Name: "echo"}, "").check(t, ExitRefused, "", want...)
	runCall(t, CallOptions{Options: Options{URL: newEdge(t, h).URL, JSON: true}, Name: "echo"}, "").check(t, ExitRefused, question+"\n", want...)
}

func TestRunCallErrors(t *testing.T) {
	t.Parallel()
	const reader = `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	tests := []struct {
		name, tool string
		status     int
		rpcError   string
		code       int
		stderr     []string
	}{
		{"unknown tool, near", "ehco", 200, `{"code":-32602,"message":"unknown tool \"ehco\"","data":{"reason":"unknown_tool","executed":"no"}}`, ExitRefused,
			[]string{"error: unknown tool \"ehco\"\n", "reason: unknown_tool\n", "executed: no - nothing ran\n", "next: did you mean echo?\n"}},
		{"unknown tool of another server", "xyz", 200, `{"code":-32602,"message":"Unknown tool: xyz"}`, ExitRefused,
			[]string{"reason: invalid_params (code -32602)\n", "executed: no", "next: see `busbar tools`"}},
		{"invalid params", "echo", 400, `{"code":-32602,"message":"text is missing","data":{"reason":"invalid_params","executed":"no","problems":[{"at":"/text"}]}}`, ExitRefused,
			[]string{`problems: [{"at":"/text"}]`, "next: compare the arguments"}},
		{"overloaded", "echo", 200, `{"code":1503,"message":"no free slot","data":{"reason":"overloaded","executed":"no","retryAfterMs":1500}}`, ExitRefused,
			[]string{"next: call again in 1.5s"}},
		{"unavailable", "echo", 200, `{"code":1503,"message":"nobody there","data":{"reason":"unavailable","executed":"no"}}`, ExitRefused,
			[]string{"next: who runs the bus sees with `busbar doctor` what is wrong there; or call again"}},
		{"peer lost", "echo", 200, `{"code":1504,"message":"the instance is gone","data":{"reason":"peer_lost","executed":"unknown"}}`, ExitTransport,
			[]string{"executed: unknown - it may have run\n", "next: check whether it had its effect"}},
		{"peer lost, read-only", "read", 200, `{"code":1504,"message":"the instance is gone","data":{"reason":"peer_lost","executed":"unknown"}}`, ExitTransport,
			[]string{"next: call again: the tool says that it only reads"}},
		{"result too large", "echo", 200, `{"code":1413,"message":"too large","data":{"reason":"result_too_large","executed":"yes"}}`, ExitTransport,
			[]string{"executed: yes - it ran", "next: ask for less at once"}},
		{"internal error without data", "echo", 200, `{"code":-32603,"message":"oops\u001b[2J"}`, ExitTransport,
			[]string{"error: oops\\x1b[2J\n", "reason: not given (code -32603)", "executed: unknown"}},
		{"data that is no object", "echo", 200, `{"code":-5,"message":"oops","data":["x"]}`, ExitTransport, []string{`data: ["x"]`}},
		{"data of other types", "echo", 200, `{"code":-5,"message":"oops","data":{"reason":5,"executed":null}}`, ExitTransport, []string{"not given (code -5)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, handlers{"tools/list": lists(echo, reader), "tools/call": fails(tt.status, tt.rpcError)})
			o := runCall(t, CallOptions{Options: Options{URL: e.URL}, Name: tt.tool}, "")
			o.check(t, tt.code, "", tt.stderr...)
			if strings.Count(o.stderr, "next:") > 1 {
				t.Errorf("more than one next step: %s", o.stderr)
			}
		})
	}
}

func TestRunCallArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "args.json")
	if err := os.WriteFile(file, []byte("\ufeff{\n  \"text\": \"ż\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{\n  \"ż\": 1,\n  \"żó\" 2}"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, argument, stdin string
		sent                  string // "" is a usage error
		stderr                string
	}{
		{"none", "", "", `{}`, ""},
		{"literal", `{"text": "a"}`, "", `{"text":"a"}`, ""},
		{"file", "@" + file, "", `{"text":"ż"}`, ""},
		{"stdin", "-", `{"n":12345678901234567890}`, `{"n":12345678901234567890}`, ""},
		{"no such file", "@" + filepath.Join(dir, "nothing"), "", "", "no such file"},
		{"empty stdin", "-", "", "", "stdin: the arguments are empty"},
		{"blank", "  ", "", "", "the arguments are empty"},
		{"syntax", `{"a":}`, "", "", "line 1, column 6:"},
		{"syntax in a file", "@" + broken, "", "", "broken.json: the arguments are not JSON: line 3, column 8:"},
		{"cut short", `{"a":`, "", "", "line 1, column 6:"},
		{"member twice", `{"a":1,"a":2}`, "", "", "line 1, column 8:"},
		{"two values", `{} {}`, "", "", "line 1, column 4:"},
		{"array", `[1]`, "", "", "not an array"},
		{"string", `"x"`, "", "", "not a string"},
		{"bare word", `text`, "", "", "line 1, column"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": answers(`{"content":[]}`)})
			o := runCall(t, CallOptions{Options: Options{URL: e.URL}, Name: "echo", Arguments: given(tt.argument)}, tt.stdin)
			if tt.sent == "" {
				o.check(t, ExitUsage, "", tt.stderr)
				if len(e.got("tools/list"))+len(e.got("tools/call")) > 0 {
					t.Error("something was sent")
				}
				return
			}
			o.check(t, ExitOK, "")
			if got := string(e.got("tools/call")[0].Params.Arguments); got != tt.sent {
				t.Errorf("sent %s, want %s", got, tt.sent)
			}
		})
	}
}

func TestRunCallProgressLine(t *testing.T) {
	t.Parallel()
	h := handlers{"tools/list": lists(echo), "tools/call": func(w http.ResponseWriter, r received) {
		r.events(w, r.progress(`"progress":1,"total":4,"message":"one\u001b\n two"`), r.progress(`"progress":2,"message":"`+strings.Repeat("世", 60)+`"`), r.response(`{"content":[]}`))
	}}
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"terminal", Options{ErrTerminal: true, Width: 40}, "\r\x1b[K 25% (1/4) one\\x1b two\r\x1b[K2 " + strings.Repeat("世", 18) + "…\r\x1b[K"},
		{"no terminal", Options{}, ""},
		{"dumb terminal", Options{ErrTerminal: true, Getenv: func(string) string { return "dumb" }}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.URL = newEdge(t, h).URL
			if o := runCall(t, CallOptions{Options: tt.opts, Name: "echo"}, ""); o.stderr != tt.want {
				t.Errorf("got %q, want %q", o.stderr, tt.want)
			}
		})
	}
}

func TestRunCallInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("while the tool works", func(t *testing.T) {
		t.Parallel()
		ctx, interrupt := context.WithCancel(t.Context())
		closed := make(chan struct{})
		e := newEdge(t, handlers{"tools/list": lists(echo), "tools/call": func(_ http.ResponseWriter, r received) {
			interrupt()
			<-r.http.Context().Done()
			close(closed)
		}})
		var out, errs bytes.Buffer
		code := RunCall(ctx, CallOptions{Options: Options{URL: e.URL}, Name: "echo"}, nil, &out, &errs)
		outcome{code, out.String(), errs.String()}.check(t, ExitInterrupted, "", "interrupted")
		<-closed
	})
	t.Run("while stdin waits", func(t *testing.T) {
		t.Parallel()
		ctx, interrupt := context.WithCancel(t.Context())
		in, end := io.Pipe()
		defer end.Close()
		interrupt()
		var out, errs bytes.Buffer
		code := RunCall(ctx, CallOptions{Options: Options{URL: "http://x"}, Name: "echo", Arguments: []string{"-"}}, in, &out, &errs)
		outcome{code, out.String(), errs.String()}.check(t, ExitInterrupted, "", "interrupted")
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRunToolsCannotWrite(t *testing.T) {
	t.Parallel()
	e := newEdge(t, handlers{"tools/list": lists(echo)})
	var errs bytes.Buffer
	if code := RunTools(t.Context(), ToolsOptions{Options: Options{URL: e.URL}}, fullDisk{}, &errs); code != ExitTransport || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
