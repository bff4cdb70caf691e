package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

func TestTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		opts Options
		says string
	}{
		"plain":         {Options{}, "say\tSays it again.\n"},
		"on a terminal": {Options{Terminal: true, Width: 60}, "\x1b[2msvc\x1b[0m\n  \x1b[1m"},
		"JSON":          {Options{JSON: true}, `{"name":"wipe","description":"Wipes it.",`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := w.options()
			o.Terminal, o.Width, o.JSON = c.opts.Terminal, c.opts.Width, c.opts.JSON
			got := w.constant(runTools(t, o))
			if got.code != ExitOK || !strings.Contains(got.stdout, c.says) || got.stderr != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, tool, arguments string
		code                  int
		stdout, stderr        string // parts
	}{
		{"text", "say", `{"text":"zażółć\n"}`, ExitOK, "zażółć\n", ""},
		{"structured", "measure", `{"text":"four"}`, ExitOK, `{"length":4}` + "\n", ""},
		{"nothing", "say", "", ExitOK, "\n", ""},
		{"progress", "count", "", ExitOK, "counted\n", ""},
		{"its own failure", "fail", "", ExitToolError, "", "tool error: no such city\n"},
		{"arguments that do not fit", "measure", `{"text":1}`, ExitRefused, "", "error: Invalid arguments: /text: got number, want string\n  reason: invalid_params\n  executed: no - nothing ran\n  next: compare the arguments with `busbar tools measure`\n"},
		{"arguments that are none", "say", `[]`, ExitUsage, "", "not an array"},
		{"no such tool", "nope", "", ExitRefused, "", "reason: unknown_tool\n  executed: no - nothing ran\n  next: see `busbar tools`"},
		{"nearly a tool", "mesure", "", ExitRefused, "", "next: did you mean measure?\n"},
		{"a question", "ask", "", ExitRefused, "", "reason: missing_capability\n"},
		{"a defect", "panic", "", ExitTransport, "", "reason: internal\n  executed: unknown - it may have run\n"},
		{"its own time limit", "stuck", "", ExitTransport, "", "reason: deadline_exceeded\n"},
		{"held", "wipe", `{"text":"x"}`, ExitHeld, "", "executed: no - nothing ran\n  next: run `busbar approve … --url URL` to decide\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := w.constant(runCall(t, CallOptions{Options: w.options(), Name: c.tool, Arguments: given(c.arguments)}, ""))
			if got.code != c.code || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) || (c.stderr == "") != (got.stderr == "") {
				t.Errorf("code %d, stdout %.200q, stderr %q", got.code, got.stdout, got.stderr)
			}
		})
	}
	// Alone, since it keeps a machine busy.
	t.Run("large", func(t *testing.T) {
		const size = 4<<20 + 1000
		got := runCall(t, CallOptions{Options: w.options(), Name: "big", Arguments: []string{fmt.Sprintf(`{"size":%d}`, size)}}, "")
		if got.code != ExitOK || len(got.stdout) != size+1 || got.stderr != "" {
			t.Errorf("code %d, %d bytes, %q", got.code, len(got.stdout), got.stderr)
		}
	})
	t.Run("the line of progress", func(t *testing.T) {
		t.Parallel()
		o := w.options()
		o.ErrTerminal, o.Quiet = true, bustest.Patience // which has a line of its own
		got := w.constant(runCall(t, CallOptions{Options: o, Name: "count"}, ""))
		if got.stderr != "\r\x1b[K 25% (1/4) one\r\x1b[K2\r\x1b[K" {
			t.Errorf("%q", got.stderr)
		}
	})
	t.Run("a time limit", func(t *testing.T) {
		t.Parallel()
		o := w.options()
		var got outcome
		// The list of tools comes within the same time: a machine that stands still may need more.
		for _, o.Timeout = range []time.Duration{500 * time.Millisecond, 4 * time.Second, 20 * time.Second} {
			got = w.constant(runCall(t, CallOptions{Options: o, Name: "watch"}, ""))
			if strings.Contains(got.stderr, "executed: unknown") {
				break
			}
		}
		if want := "error: no answer from URL in time\n  executed: unknown - it may have run\n  next: call again: the tool says that it only reads\n"; got.code != ExitTransport || got.stderr != want {
			t.Errorf("%d %s", got.code, got.stderr)
		}
	})
	t.Run("arguments that are too large", func(t *testing.T) {
		t.Parallel()
		got := runCall(t, CallOptions{Options: w.options(), Name: "say", Arguments: []string{"-"}}, `{"text":"`+strings.Repeat("x", 2<<20)+`"}`)
		got.check(t, ExitRefused, "", "  reason: too_large\n  executed: no - nothing ran\n  next: send smaller arguments\n")
	})
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		o := w.options()
		o.JSON = true
		got := runCall(t, CallOptions{Options: o, Name: "measure", Arguments: []string{`{"text":"four"}`}}, "")
		if got.code != ExitOK || !strings.Contains(got.stdout, `"content":[{"type":"text","text":"{\"length\":4}"}],"structuredContent":{"length":4}`) {
			t.Errorf("%+v", got)
		}
	})
}

// Tests that a call ends well when its connection or its user leaves.
func TestCutOff(t *testing.T) {
	t.Parallel()
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			<-w.started
			interrupt()
		}()
		var out, errs bytes.Buffer
		code := RunCall(ctx, CallOptions{Options: w.options(), Name: "wait"}, nil, &out, &errs)
		got := w.constant(outcome{code, out.String(), errs.String()})
		got.check(t, ExitInterrupted, "", "interrupted\n")
	})
	t.Run("the connection is lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		c := newCutter(t, u.Host)
		go func() {
			<-w.started
			close(c.cut)
		}()
		w.url = "http://" + c.l.Addr().String() + u.Path
		got := w.constant(runCall(t, CallOptions{Options: w.options(), Name: "wait"}, ""))
		got.check(t, ExitTransport, "", "error: URL closed the connection before it answered\n  executed: unknown - it may have run\n  next: check whether")
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		l := listen(t)
		at := l.Addr().String()
		_ = l.Close()
		w := &world{url: "http://" + at + "/mcp"}
		for name, command := range map[string]func() outcome{
			"tools":   func() outcome { return runTools(t, w.options()) },
			"call":    func() outcome { return runCall(t, CallOptions{Options: w.options(), Name: "say"}, "") },
			"approve": func() outcome { return runApprove(t, ApproveOptions{Options: w.options()}, nil) },
			"batch": func() outcome {
				return runBatch(t, BatchOptions{Options: w.options(), File: "-"}, strings.NewReader("{}"))
			},
		} {
			got := w.constant(command())
			if !strings.HasPrefix(got.stderr, "error: no edge at URL; start one with `busbar dev`, or give --url\n") || got.code != ExitTransport {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
	t.Run("no such host", func(t *testing.T) {
		t.Parallel()
		w := &world{url: "http://no-such-host.invalid:1/mcp"}
		got := w.constant(runTools(t, w.options()))
		got.check(t, ExitTransport, "", `no host "no-such-host.invalid"; give another --url`)
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	o := Options{URL: "http://edge.example:1", Header: http.Header{"Authorization": {"Bearer secret"}}, Getenv: noEnv}
	got := runTools(t, o)
	got.check(t, ExitUsage, "", "error: the token would travel to edge.example:1 unencrypted; use https:// instead, or no token\n")
	if strings.Contains(got.stderr, "secret") {
		t.Error("it is told")
	}
}
