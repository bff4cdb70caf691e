package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// Exit codes of the commands.
const (
	// ExitOK: the list or the tool's answer is on stdout.
	ExitOK = 0
	// ExitToolError: the tool ran and said that it failed; why is on stderr.
	ExitToolError = 1
	// ExitUsage: what the user gave is wrong, for example arguments that are not
	// JSON or a file that is not there. Nothing was sent.
	ExitUsage = 2
	// ExitRefused: the edge refused the request and nothing ran, for example an
	// unknown tool; or it asked for input that the command line cannot give; or a
	// person who was asked did not agree.
	ExitRefused = 3
	// ExitTransport: no usable answer: no edge there, no answer in time, an
	// answer lost on the way or impossible to write to stdout. A call may have
	// run; stderr says so.
	ExitTransport = 4
	// ExitHeld: the call is held until a person agrees to it; stderr says how.
	// Nothing ran yet.
	ExitHeld = 5
	// ExitInterrupted: the context was cancelled, as by Ctrl-C. A call was
	// cancelled with it.
	ExitInterrupted = 130
)

// DefaultURL is where a developer's edge is.
const DefaultURL = "http://127.0.0.1:8000"

// Options are what all commands have in common.
type Options struct {
	// URL of the edge; see Client.URL.
	URL string
	// JSON asks for JSON as received instead of text.
	JSON bool
	// Timeout of the whole command except the time that a person needs to answer; 0 is
	// forever.
	Timeout time.Duration
	// Terminal is whether stdout is a terminal: only then is there layout and
	// colour, and only then is what the server sent made safe to show.
	Terminal bool
	// ErrTerminal is whether stderr is a terminal: only then is progress shown.
	ErrTerminal bool
	// InTerminal is whether stdin is a terminal: only then, and if stderr is one, is
	// anybody asked.
	InTerminal bool
	// Width of the terminal in columns. 0 means COLUMNS or 80.
	Width int
	// Header is sent with every request, for example Authorization.
	Header http.Header
	// HTTP sends the requests; nil means http.DefaultClient.
	HTTP *http.Client
	// TLS of an edge at an https:// URL.
	TLS TLS
	// Quiet is how long an answer may take before a line on stderr, if that is a terminal,
	// says what is waited for. 0 is a second.
	Quiet time.Duration
	// Version of the program, for clientInfo.
	Version string
	// Getenv reads NO_COLOR, TERM and COLUMNS; nil means os.Getenv.
	Getenv func(string) string
}

// show prints the result of a tool and returns the exit code.
func (r *run) show(res *Result, tool string, o Options) int {
	code, refusal := ExitOK, res.refusal()
	switch {
	case refusal != nil && !o.JSON:
		return r.fail(refusal, tool)
	case refusal != nil:
		code = ExitRefused
	case res.InputRequests != nil:
		fmt.Fprint(r.stderr, r.errStyle.Red("error: ")+questions(res.InputRequests))
		code = ExitRefused
	case res.IsError:
		code = ExitToolError
	}
	switch {
	case o.JSON:
		return r.printRaw(res.Raw, o, code)
	case code == ExitToolError:
		text := resultText(res, true)
		if text == "" {
			text = "the tool failed and did not say why\n"
		}
		fmt.Fprint(r.stderr, r.errStyle.Red("tool error: ")+text)
		return code
	case code == ExitRefused:
		return code
	}
	return r.print(resultText(res, o.Terminal), code)
}

// run is one command under way.
type run struct {
	edge            *Client
	timeout         time.Duration
	stdout, stderr  io.Writer
	style, errStyle terminal.Style
	getenv          func(string) string
	// certificate is whether one is shown to the edge.
	certificate bool
	// asks is whether there is a person to ask.
	asks bool
	// line shows how far the command has come.
	line *progressLine
	// notShown is how many events of other tenants the trail has, if the edge says so.
	notShown int64
}

func newRun(o Options, stdout, stderr io.Writer) *run {
	getenv := environment(o.Getenv)
	r := &run{
		timeout: o.Timeout, stdout: stdout, stderr: stderr, getenv: getenv, certificate: o.TLS.Cert != "", asks: o.asks(),
		style: terminal.NewStyle(o.Terminal, getenv), errStyle: terminal.NewStyle(o.ErrTerminal, getenv),
	}
	r.line = &progressLine{w: stderr, width: terminal.Columns(o.Width, getenv), quiet: cmp.Or(o.Quiet, time.Second)}
	r.line.on = o.ErrTerminal && getenv("TERM") != "dumb"
	client, err := o.TLS.client(o.HTTP)
	r.edge = &Client{URL: o.URL, HTTP: client, invalid: err, Header: o.Header, Version: o.Version, Warn: func(message string) { fmt.Fprintln(stderr, "warning: "+terminal.SafeLine(message)) }}
	r.edge.Waiting = func() func() { return r.line.wait("waiting for " + r.edge.shownURL()) }
	return r
}

func (r *run) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.timeout)
}

// printRaw writes JSON as received, on a line.
func (r *run) printRaw(raw jsontext.Value, o Options, code int) int {
	text := oneLine(raw)
	if o.Terminal {
		text = terminal.SafeJSON(text)
	}
	return r.print(text+"\n", code)
}

// print writes the command's output.
func (r *run) print(text string, code int) int {
	if _, err := io.WriteString(r.stdout, text); err != nil {
		fmt.Fprintf(r.stderr, "%scannot write the output: %v\n", r.errStyle.Red("error: "), err)
		return ExitTransport
	}
	return code
}

// fail explains an error on stderr and returns the exit code. tool is the name
// of the tool called, if one was.
func (r *run) fail(err error, tool string) int {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(r.stderr, "interrupted")
		return ExitInterrupted
	}
	code, message, details := explain(err, tool, r.edge.known())
	var lost *TransportError
	if r.certificate && errors.As(err, &lost) && lost.cut() {
		details = append(slices.DeleteFunc(details, func(d detail) bool { return d.label == "next" }), detail{"next", "if this happens each time, " + notTaken})
	}
	if held := heldBy(err); held != nil {
		next := "run `" + r.approveCommand(held.Approval) + "` to decide"
		if held.Approver == byOthers {
			next = "ask somebody who may approve it to run `" + r.approveCommand(held.Approval) + "`"
		}
		details = append(details, detail{"next", next})
	}
	fmt.Fprintln(r.stderr, r.errStyle.Red("error: ")+terminal.SafeText(message))
	for _, d := range details {
		fmt.Fprintf(r.stderr, "  %s %s\n", r.errStyle.Dim(d.label+":"), terminal.SafeLine(d.text))
	}
	return code
}

// environment returns getenv or, if that is nil, the process's own.
func environment(getenv func(string) string) func(string) string {
	if getenv == nil {
		return os.Getenv
	}
	return getenv
}
