package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// What a command prints and how it exits does not depend on how the edge is
// reached.
func TestAlikeTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		opts Options
		says string
	}{
		"plain":         {Options{}, "say\tSays it again.\n"},
		"on a terminal": {Options{Terminal: true, Width: 60}, "wipe\x1b[0m  \x1b[2m[destructive]"},
		"JSON":          {Options{JSON: true}, `{"name":"wipe","description":"Wipes it.",`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := w.alike(t, func(url string) outcome {
				o := w.options(url)
				o.Terminal, o.Width, o.JSON = c.opts.Terminal, c.opts.Width, c.opts.JSON
				return runTools(t, o)
			})
			if got.code != ExitOK || !strings.Contains(got.stdout, c.says) || got.stderr != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAlikeCall(t *testing.T) {
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
		{"arguments that do not fit", "measure", `{"text":1}`, ExitToolError, "", "tool error: Invalid arguments: /text: got number, want string\n"},
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
			got := w.alike(t, func(url string) outcome {
				return runCall(t, CallOptions{Options: w.options(url), Name: c.tool, Argument: c.arguments}, "")
			})
			if got.code != c.code || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) || (c.stderr == "") != (got.stderr == "") {
				t.Errorf("code %d, stdout %.200q, stderr %q", got.code, got.stdout, got.stderr)
			}
		})
	}
	// Alone, since it keeps a machine busy; gRPC takes no more than 4 MiB unless told to.
	t.Run("large", func(t *testing.T) {
		const size = 4<<20 + 1000
		for _, url := range w.urls {
			got := runCall(t, CallOptions{Options: w.options(url), Name: "big", Argument: fmt.Sprintf(`{"size":%d}`, size)}, "")
			if got.code != ExitOK || len(got.stdout) != size+1 || got.stderr != "" {
				t.Errorf("%s: code %d, %d bytes, %q", url, got.code, len(got.stdout), got.stderr)
			}
		}
	})
	t.Run("the line of progress", func(t *testing.T) {
		t.Parallel()
		got := w.alike(t, func(url string) outcome {
			o := w.options(url)
			o.ErrTerminal = true
			return runCall(t, CallOptions{Options: o, Name: "count"}, "")
		})
		if got.stderr != "\r\x1b[K 25% (1/4) one\r\x1b[K2\r\x1b[K" {
			t.Errorf("%q", got.stderr)
		}
	})
	t.Run("a time limit", func(t *testing.T) {
		t.Parallel()
		got := w.alike(t, func(url string) outcome {
			o := w.options(url)
			o.Timeout = 500 * time.Millisecond
			return runCall(t, CallOptions{Options: o, Name: "watch"}, "")
		})
		if want := "error: no answer from URL in time\n  executed: unknown - it may have run\n  next: call again: the tool says that it only reads\n"; got.code != ExitTransport || got.stderr != want {
			t.Errorf("%d %s", got.code, got.stderr)
		}
	})
	t.Run("arguments that are too large", func(t *testing.T) {
		t.Parallel()
		for _, url := range w.urls { // each has its limit
			got := runCall(t, CallOptions{Options: w.options(url), Name: "say", Argument: "-"}, `{"text":"`+strings.Repeat("x", 2<<20)+`"}`)
			got.check(t, ExitRefused, "", "  reason: too_large\n  executed: no - nothing ran\n  next: send smaller arguments\n")
		}
	})
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		for _, url := range w.urls { // as received, which is not the same
			o := w.options(url)
			o.JSON = true
			got := runCall(t, CallOptions{Options: o, Name: "measure", Argument: `{"text":"four"}`}, "")
			if got.code != ExitOK || !strings.Contains(got.stdout, `"content":[{"type":"text","text":"{\"length\":4}"}],"structuredContent":{"length":4}`) {
				t.Errorf("%+v", got)
			}
		}
	})
}

// Tests that a call ends well when its connection or its user leaves.
func TestAlikeCutOff(t *testing.T) {
	t.Parallel()
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := w.alike(t, func(url string) outcome {
			ctx, interrupt := context.WithCancel(t.Context())
			go func() {
				<-w.started
				interrupt()
			}()
			var out, errs bytes.Buffer
			code := RunCall(ctx, CallOptions{Options: w.options(url), Name: "wait"}, nil, &out, &errs)
			return outcome{code, out.String(), errs.String()}
		})
		got.check(t, ExitInterrupted, "", "interrupted\n")
	})
	t.Run("the connection is lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := w.alike(t, func(at string) outcome {
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			c := newCutter(t, u.Host)
			go func() {
				<-w.started
				close(c.cut)
			}()
			through := *u
			through.Host = c.l.Addr().String()
			got := runCall(t, CallOptions{Options: w.options(through.String()), Name: "wait"}, "")
			got.stderr = strings.ReplaceAll(got.stderr, through.String(), at)
			return got
		})
		got.check(t, ExitTransport, "", "error: URL closed the connection before it answered\n  executed: unknown - it may have run\n  next: check whether")
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		l := listen(t)
		at := l.Addr().String()
		_ = l.Close()
		w := &world{urls: [2]string{"http://" + at + "/mcp", "grpc://" + at}}
		for name, command := range map[string]func(url string) outcome{
			"tools":   func(url string) outcome { return runTools(t, w.options(url)) },
			"call":    func(url string) outcome { return runCall(t, CallOptions{Options: w.options(url), Name: "say"}, "") },
			"approve": func(url string) outcome { return runApprove(t, ApproveOptions{Options: w.options(url)}, nil) },
			"batch": func(url string) outcome {
				return runBatch(t, BatchOptions{Options: w.options(url), File: "-"}, strings.NewReader("{}"))
			},
		} {
			got := w.alike(t, command)
			if !strings.HasPrefix(got.stderr, "error: no edge at URL; start one with `busbar dev`, or give --url\n") || got.code != ExitTransport {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
	t.Run("no such host", func(t *testing.T) {
		t.Parallel()
		w := &world{urls: [2]string{"http://no-such-host.invalid:1/mcp", "grpc://no-such-host.invalid:1"}}
		got := w.alike(t, func(url string) outcome { return runTools(t, w.options(url)) })
		got.check(t, ExitTransport, "", `no host "no-such-host.invalid"; give another --url`)
	})
	t.Run("something else there", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, at := range []string{
			"grpc" + strings.TrimSuffix(strings.TrimPrefix(w.urls[0], "http"), "/mcp"),
			"grpcs" + strings.TrimPrefix(w.urls[1], "grpc"),
		} {
			got := runTools(t, w.options(at))
			if got.code != ExitTransport || !strings.HasPrefix(got.stderr, "error: cannot talk to "+at+": ") {
				t.Errorf("%s: %+v", at, got)
			}
		}
	})
}

func TestAlikeToken(t *testing.T) {
	t.Parallel()
	w := &world{urls: [2]string{"http://edge.example:1", "grpc://edge.example:1"}}
	got := w.alike(t, func(url string) outcome {
		o := w.options(url)
		o.Header = http.Header{"Authorization": {"Bearer secret"}}
		got := runTools(t, o)
		scheme, _, _ := strings.Cut(url, "://")
		got.stderr = strings.ReplaceAll(got.stderr, scheme+"s://", "SECURE")
		return got
	})
	got.check(t, ExitUsage, "", "error: the token would travel to edge.example:1 unencrypted; use SECURE instead, or no token\n")
	if strings.Contains(got.stderr, "secret") {
		t.Error("it is told")
	}
}

func TestGRPCEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, url, want string }{
		{"plain", "grpc://localhost:8001", "grpc://localhost:8001"},
		{"slash", "grpc://localhost:8001/", "grpc://localhost:8001"},
		{"TLS", "grpcs://edge.example", "grpcs://edge.example:443"},
		{"IPv6", "grpc://[::1]:8001", "grpc://[::1]:8001"},
		{"no port", "grpc://localhost", ""},
		{"no host", "grpc://:8001", ""},
		{"path", "grpc://localhost:8001/mcp", ""},
		{"user", "grpc://ada:secret@localhost:8001", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u, err := (&GRPC{URL: c.url}).endpoint()
			var usage *UsageError
			switch {
			case c.want == "" && (!errors.As(err, &usage) || strings.Contains(err.Error(), "secret")):
				t.Errorf("got %v, %v; want a UsageError", u, err)
			case c.want != "" && (err != nil || u.String() != c.want):
				t.Errorf("got %v, %v; want %s", u, err, c.want)
			}
		})
	}
}
