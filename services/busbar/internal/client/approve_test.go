package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// hold makes a call that is held and returns its approval.
func (w *world) hold(t *testing.T, text string) string {
	t.Helper()
	c := &Client{URL: w.url}
	var err error
	bustest.Eventually(t, "NATS is heard", func() bool {
		_, err = c.Call(t.Context(), "wipe", []byte(`{"text":"`+text+`"}`), nil)
		return err == nil || !bustest.StoodStill(err.Error())
	})
	held := heldBy(err)
	if held == nil {
		t.Fatalf("it is not held: %v", err)
	}
	return held.Approval
}

// waits reports whether a call still does.
func (w *world) waits(t *testing.T, id string) bool {
	t.Helper()
	var all []Held
	var err error
	bustest.Eventually(t, "NATS is heard", func() bool {
		all, err = (&Client{URL: w.url}).Held(t.Context())
		return err == nil || !bustest.StoodStill(err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range all {
		if held.Approval == id {
			return true
		}
	}
	return false
}

const shown = "wipe needs your approval for this call:\n  {\n    \"text\": \"disk\"\n  }\n  expires: …\n"

func TestApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person := Options{InTerminal: true, ErrTerminal: true, Getenv: func(name string) string { return map[string]string{"TERM": "dumb"}[name] }}
	for _, c := range []struct {
		name           string
		opts           ApproveOptions
		text, answer   string
		code           int
		stdout, stderr string
		waits          bool // it still does
	}{
		{"--yes", ApproveOptions{Yes: true}, "disk", "", ExitOK, "wiped disk\n", shown, false},
		{"--deny", ApproveOptions{Deny: true}, "disk", "", ExitOK, "", shown + "denied: wipe will not run\n", false},
		{"yes", ApproveOptions{Options: person}, "disk", "y\n", ExitOK, "wiped disk\n", shown + "run it? [y/N] ", false},
		{"Yes, and what follows", ApproveOptions{Options: person}, "disk", " YES \r\nn\n", ExitOK, "wiped disk\n", shown + "run it? [y/N] ", false},
		{"no", ApproveOptions{Options: person}, "disk", "n\n", ExitRefused, "", shown + "run it? [y/N] not run; it waits until it expires, or is denied with --deny\n", true},
		{"nothing said", ApproveOptions{Options: person}, "disk", "\n", ExitRefused, "", shown + "run it? [y/N] not run; it waits until it expires, or is denied with --deny\n", true},
		{"gone away", ApproveOptions{Options: person}, "disk", "", ExitRefused, "", shown + "run it? [y/N] \nnot run; it waits until it expires, or is denied with --deny\n", true},
		{"nobody to ask", ApproveOptions{Options: Options{ErrTerminal: true}}, "disk", "y\n", ExitUsage, "", "error: nobody can be asked here: say --yes to let it run, or --deny\n", true},
		{"its own failure", ApproveOptions{Yes: true}, "fail", "", ExitToolError, "", "tool error: it is full\n", false},
		{"both", ApproveOptions{Yes: true, Deny: true}, "disk", "", ExitUsage, "", "error: --deny and --yes exclude each other\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id := w.hold(t, c.text)
			c.opts.URL, c.opts.Timeout, c.opts.ID = w.url, 20*time.Second, id
			if c.opts.Getenv == nil {
				c.opts.Getenv = noEnv
			}
			o := runApprove(t, c.opts, strings.NewReader(c.answer))
			if w.waits(t, id) != c.waits {
				t.Errorf("it waits: %t", !c.waits)
			}
			got := w.constant(o)
			plain := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[0m", "").Replace(got.stderr)
			if got.code != c.code || got.stdout != c.stdout || !strings.HasSuffix(plain, c.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", got.code, got.stdout, plain)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		o := ApproveOptions{Options: w.options(), ID: w.hold(t, "disk"), Yes: true}
		runApprove(t, o, nil)
		got := w.constant(runApprove(t, o, nil))
		got.check(t, ExitTransport, "", "error: no such approval, or it is over\n  reason: unknown_approval\n  next: see `busbar approve` for what waits\n")
	})
	t.Run("no id", func(t *testing.T) {
		t.Parallel()
		got := w.constant(runApprove(t, ApproveOptions{Options: w.options(), ID: "../tools"}, nil))
		got.check(t, ExitUsage, "", `"../tools" is not the id of an approval`)
		got = w.constant(runApprove(t, ApproveOptions{Options: w.options(), Yes: true}, nil))
		got.check(t, ExitUsage, "", "which call?")
	})
	t.Run("interrupted while asked", func(t *testing.T) {
		t.Parallel()
		id := w.hold(t, "disk")
		ctx, interrupt := context.WithCancel(t.Context())
		in, end := io.Pipe()
		defer end.Close()
		o := ApproveOptions{Options: person, ID: id}
		o.URL = w.url
		said := &watched{until: "[y/N] ", found: interrupt}
		var out bytes.Buffer
		code := RunApprove(ctx, o, in, &out, said)
		if code != ExitInterrupted || !strings.HasSuffix(said.String(), "\ninterrupted\n") || !w.waits(t, id) {
			t.Errorf("code %d, %q", code, said.String())
		}
	})
}

// watched is a buffer that says when a text is in it.
type watched struct {
	bytes.Buffer
	until string
	found func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.until) {
		w.found()
	}
	return n, err
}

// A user who calls a tool that needs approval is asked at once if there is a
// terminal.
func TestCallAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("each", func(t *testing.T) {
		for _, c := range []struct {
			name, answer   string
			code           int
			stdout, stderr string
		}{
			{"yes", "y\n", ExitOK, "wiped disk\n", "  Let it run? [y/N] "},
			{"no", "no\n", ExitRefused, "", "  Let it run? [y/N] denied: wipe will not run\n"},
			{"gone away", "", ExitRefused, "", "  Let it run? [y/N] \ndenied: wipe will not run\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				o := w.options()
				o.InTerminal, o.ErrTerminal = true, true
				got := w.constant(runCall(t, CallOptions{Options: o, Name: "wipe", Arguments: []string{`{"text":"disk"}`}}, c.answer))
				if got.code != c.code || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) || !strings.Contains(got.stderr, `  "text": "disk"`) {
					t.Errorf("%+v", got)
				}
			})
		}
	})
	w.constant(runApprove(t, ApproveOptions{Options: w.options()}, nil)).check(t, ExitOK, "", "nothing waits for your approval\n")
}

// A user who may not approve is not asked, but told who may.
func TestHeldForOthers(t *testing.T) {
	t.Parallel()
	const id = "K3J5V6Q2ZL4WBN7TYXC3M5R6DA"
	e := newEdge(t, handlers{"tools/list": lists(`{"name":"wipe","inputSchema":{"type":"object"}}`), "tools/call": func(w http.ResponseWriter, r received) {
		r.fail(w, http.StatusOK, `{"code":-32003,"message":"another person than its caller has to approve this call","data":{"reason":"approval_required","executed":"no","approval":"`+id+`","approver":"others"}}`)
	}})
	o := Options{URL: e.URL + "/mcp", InTerminal: true, ErrTerminal: true}
	got := runCall(t, CallOptions{Options: o, Name: "wipe", Arguments: []string{`{}`}}, "y\n")
	if got.code != ExitHeld || strings.Contains(got.stderr, "[y/N]") || !strings.Contains(got.stderr, "ask somebody who may approve it to run `busbar approve "+id) {
		t.Errorf("%+v", got)
	}
}

func TestListOfHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(change func(*Options)) outcome {
		t.Helper()
		o := w.options()
		change(&o)
		return w.constant(runApprove(t, ApproveOptions{Options: o}, nil))
	}
	list(func(*Options) {}).check(t, ExitOK, "", "nothing waits for your approval\n")
	w.hold(t, "disk")
	w.hold(t, "other disk")
	list(func(*Options) {}).check(t, ExitOK, "…\t…\twipe\tanonymous\n…\t…\twipe\tanonymous\n")
	list(func(o *Options) { o.Terminal = true }).check(t, ExitOK, "\x1b[1mAPPROVAL                    EXPIRES     CALLER            TOOL\x1b[0m\n…  …    anonymous         wipe\n…  …    anonymous         wipe\n")
	list(func(o *Options) { o.JSON = true }).check(t, ExitOK, `[{"approval":"…","principal":"anonymous","name":"wipe","expires":"…"},{"approval":"…","principal":"anonymous","name":"wipe","expires":"…"}]`+"\n")
}

// An edge that answers nonsense does not have a call take place unseen.
func TestApproveNonsense(t *testing.T) {
	t.Parallel()
	const id = "K3J5V6Q2ZL4WBN7TYXC3M5R6DA"
	for name, c := range map[string]struct {
		found, done string // what the edge answers
		code        int
		stderr      string
	}{
		"not JSON":                       {"hello", "", ExitTransport, "the answer is not JSON"},
		"another shape":                  {`{"approval":1}`, "", ExitTransport, "the held call is malformed"},
		"a result that is none":          {`{"approval":"` + id + `","name":"wipe"}`, `{"content":1}`, ExitTransport, "executed: unknown - it may have run"},
		"a call with an escape sequence": {`{"approval":"` + id + `","name":"\u001b[2Jwipe","parameters":{"a":"\u009b"}}`, `{"content":[]}`, ExitOK, `\x1b[2Jwipe needs`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newPlainEdge(t, func(w http.ResponseWriter, r *http.Request) {
				answer := c.found
				if r.Method == http.MethodPost {
					answer = c.done
				}
				_, _ = io.WriteString(w, answer)
			})
			got := runApprove(t, ApproveOptions{Options: Options{URL: e, Getenv: noEnv}, ID: id, Yes: true}, nil)
			if got.code != c.code || !strings.Contains(got.stderr, c.stderr) || strings.ContainsAny(got.stderr, "\x1b\u009b") {
				t.Errorf("%+v", got)
			}
		})
	}
}
