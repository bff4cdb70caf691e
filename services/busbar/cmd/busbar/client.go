package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
)

// clientFlags are what every command has that talks to an edge.
type clientFlags struct {
	URL     string        `name:"url" default:"${default_url}" env:"BUSBAR_URL" placeholder:"URL" help:"The edge to talk to (default ${default})."`
	Token   string        `env:"BUSBAR_TOKEN" secret:"" hidden:"" placeholder:"TOKEN" help:"Bearer token to send, to another machine only encrypted."`
	CA      string        `name:"ca" env:"BUSBAR_CA" placeholder:"FILE" help:"Certificate authorities for the edge's certificate, in PEM, instead of this machine's."`
	Cert    string        `env:"BUSBAR_CERT" placeholder:"FILE" help:"Certificate to show the edge, in PEM."`
	Key     string        `env:"BUSBAR_KEY" placeholder:"FILE" help:"Key of that certificate, in PEM."`
	JSON    bool          `name:"json" env:"BUSBAR_JSON" help:"Print JSON as received."`
	Timeout time.Duration `default:"60s" env:"BUSBAR_TIMEOUT" placeholder:"TIME" help:"Time limit; 0 is forever (default ${default})."`
}

// Validate implements kong's interface.
func (f *clientFlags) Validate() error {
	if f.Timeout < 0 {
		return errors.New("--timeout must not be negative; 0 is forever")
	}
	return nil
}

func (f *clientFlags) options() client.Options {
	o := client.Options{
		URL: f.URL, JSON: f.JSON, Timeout: f.Timeout, Version: lifecycle.Version(),
		TLS:      client.TLS{CA: f.CA, Cert: f.Cert, Key: f.Key},
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())),
	}
	if f.Token != "" {
		o.Header = http.Header{"Authorization": {"Bearer " + f.Token}}
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		o.Width = width
	}
	return o
}

type toolsCommand struct {
	clientFlags
	Name    string `arg:"" optional:"" help:"Tool to describe."`
	Service string `placeholder:"NAME" help:"Only the tools of this service."`
}

// Help implements kong's HelpProvider.
func (toolsCommand) Help() string {
	return `Examples:
  busbar tools
  busbar tools analyzeText
  busbar tools --service text --json

If standard output is not a terminal, a line is a name, a tab and a description.`
}

func (c *toolsCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunTools(ctx, client.ToolsOptions{Options: c.options(), Name: c.Name, Service: c.Service}, out, os.Stderr))
}

type readyCommand struct{ clientFlags }

// Help implements kong's HelpProvider.
func (readyCommand) Help() string {
	return `Example: busbar ready --url http://127.0.0.1:8000

Prints a line for each part that the edge needs. Exit status: 0 ready; 3 not
ready; 4 there is no edge, or it did not answer in time.`
}

func (c *readyCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunReady(ctx, c.options(), out, os.Stderr))
}

// given is a name that has to be there: an empty one is a shell variable that is not set.
type given string

// Validate implements kong's interface.
func (g given) Validate() error {
	if g == "" {
		return errors.New("must not be empty")
	}
	return nil
}

type callCommand struct {
	clientFlags
	Name      given    `arg:"" help:"Name of the tool."`
	Arguments []string `arg:"" optional:"" name:"name=value" help:"Arguments, or one JSON object: as text, from @FILE, or from - for standard input."`
	Detach    bool     `help:"Run the call as a task, if the tool allows it, and print the task's ID."`
	Once      *string  `placeholder:"KEY" help:"Idempotency key of 1 to 255 bytes. A call that is repeated with the same key and arguments runs once and gets the first answer again."`
}

// Help implements kong's HelpProvider.
func (callCommand) Help() string {
	return `Examples:
  busbar call analyzeText text="One bus. Many circuits."
  busbar call analyzeText text=@report.txt
  busbar call analyzeText '{"text":"One bus. Many circuits."}'
  busbar call orders_place item=lamp --once order-4711

The tool's schema gives each value its type. limits.size=3 sets a member of an
object, and a repeated name adds to an array. @FILE is the content of a file, @- is
standard input, and @@x is the text @x.

On a terminal, the user is asked to approve a call that needs approval, and to
answer a tool's questions. Without a terminal the call is held until "busbar
approve" decides. A call with --once that ran before returns its first answer, and
standard error says so. --once does nothing for a read-only tool: it runs each time.

Exit status: 0 done; 1 the tool reported an error; 2 wrong usage; 3 the edge
refused the call, or you did; 4 the edge could not be reached, or the outcome is
unknown; 5 the call is held until it is approved; 130 interrupted.`
}

// Validate implements kong's interface.
func (c *callCommand) Validate() error {
	// A byte that is not UTF-8 is U+FFFD here.
	if c.Once != nil && (mcp.CheckIdempotencyKey(*c.Once) != nil || strings.ContainsRune(*c.Once, utf8.RuneError)) {
		return fmt.Errorf("--once: an idempotency key is UTF-8 text of 1 to %d bytes, and this one has %d", mcp.MaxIdempotencyKey, len(*c.Once))
	}
	return c.clientFlags.Validate()
}

func (c *callCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.CallOptions{Options: c.options(), Name: string(c.Name), Arguments: c.Arguments, Detach: c.Detach, Begun: begunTasks()}
	if c.Once != nil {
		o.Once = *c.Once
	}
	return exit(client.RunCall(ctx, o, os.Stdin, out, os.Stderr))
}

type approveCommand struct {
	clientFlags
	ID   string `arg:"" optional:"" help:"ID of a held call. Without it, held calls are listed."`
	Yes  bool   `short:"y" help:"Approve it without a question."`
	Deny bool   `help:"Refuse it for good."`
}

// Help implements kong's HelpProvider.
func (approveCommand) Help() string {
	return `Examples:
  busbar approve
  busbar approve K3J5V6Q2ZL4WBN7TYXC3M5R6DA
  busbar approve --deny K3J5V6Q2ZL4WBN7TYXC3M5R6DA

Decides on a call that is held because its tool or the access file requires
approval. You decide on your own calls, and on others of your tenant if the access
file allows it. The call is shown, and runs if you say yes; its result is printed as
by "busbar call". A held call expires after ten minutes. Without a terminal, use --yes.

Exit status: 0 done, or denied by --deny; 1 the tool reported an error; 2 wrong
usage; 3 there is no such call, the edge refused it, or you did not agree; 4 the
edge could not be reached, or the outcome is unknown; 130 interrupted.`
}

func (c *approveCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.ApproveOptions{Options: c.options(), ID: c.ID, Yes: c.Yes, Deny: c.Deny}
	return exit(client.RunApprove(ctx, o, os.Stdin, out, os.Stderr))
}

type batchCommand struct {
	clientFlags
	File string `arg:"" help:"File with a call on each line, or - for standard input."`
}

// Help implements kong's HelpProvider.
func (batchCommand) Help() string {
	return `Example: busbar batch calls.jsonl > results.jsonl

Each line of the file is a call, {"name":"analyzeText","parameters":{"text":"…"}};
each line printed is the outcome of one, with its position in the file as index.
A file may have any length, because it is read as calls end.

Exit status: 0 done; 1 some calls failed; 2 wrong usage; 3 the edge refused the
batch; 4 the edge could not be reached, or stopped answering; 130 interrupted.`
}

func (c *batchCommand) Run(ctx context.Context, out io.Writer) error {
	o := c.options()
	o.Timeout = 0 // a batch takes as long as it is
	return exit(client.RunBatch(ctx, client.BatchOptions{Options: o, File: c.File}, os.Stdin, out, os.Stderr))
}

func exit(code int) error {
	if code == client.ExitOK {
		return nil
	}
	return lifecycle.ExitCode(code)
}
