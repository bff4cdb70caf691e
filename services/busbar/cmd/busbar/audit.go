package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/edge/operator"
)

// auditCommands are what can be done with the audit trail.
type auditCommands struct {
	Ls        auditListCommand           `cmd:"" help:"List calls; the newest are last on a terminal, first elsewhere."`
	Tail      auditTailCommand           `cmd:"" help:"Print the newest events, and with -f each event that follows."`
	Show      auditShowCommand           `cmd:"" help:"Print everything that is recorded of a call."`
	Verify    auditVerifyCommand         `cmd:"" help:"Check that no event was changed, added or removed."`
	Export    auditExportCommand         `cmd:"" help:"Write every event as a line of JSON, newest first."`
	Redeliver auditRedeliverCommand      `cmd:"" help:"Write the events of stream DLQ to the trail."`
	Serve     service.Command[audit.Env] `cmd:"" help:"Run one instance of the audit service."`
}

// auditFilter are the flags that choose events.
type auditFilter struct {
	Since     string `placeholder:"TIME" help:"Only events from this time on: 2026-01-31T12:00:00Z, or how long ago, such as 90m or 7d."`
	Until     string `placeholder:"TIME" help:"Only events before this time."`
	Tenant    string `placeholder:"NAME" help:"Only of this tenant; - for none."`
	Principal string `placeholder:"NAME" help:"Only of this caller."`
	Method    string `placeholder:"NAME" help:"Only this method, such as tools/call."`
	Name      string `placeholder:"NAME" help:"Only this tool, prompt, or resource's URI."`
	Outcome   string `placeholder:"NAME" help:"Only this outcome: ok, tool_error, input_required, task, left, begun (of which no end is recorded), or the reason of an error, such as forbidden."`
	Door      string `placeholder:"NAME" help:"Only this door, such as streamable, sse or stdio."`
	Call      string `placeholder:"ID" help:"Only this call."`
	Parent    string `placeholder:"ID" help:"Only calls made by the tool of this call."`
}

func (f *auditFilter) values() url.Values {
	v := url.Values{}
	for key, value := range map[string]string{
		"since": f.Since, "until": f.Until, "tenant": f.Tenant, "principal": f.Principal, "method": f.Method,
		"name": f.Name, "outcome": f.Outcome, "door": f.Door, "call": f.Call, "parent": f.Parent,
	} {
		if value != "" {
			v.Set(key, value)
		}
	}
	return v
}

// auditFlags are what every command has that reads the trail.
type auditFlags struct {
	clientFlags
	DataDir string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Data directory of the edge, with the token that opens the trail. Default the directories of \"busbar dev\" and \"busbar edge\"."`
}

// audit has the token of an edge of this machine sent.
func (f *auditFlags) audit() client.AuditOptions {
	o := client.AuditOptions{Options: f.options()}
	dirs := []string{f.DataDir}
	if f.DataDir == "" {
		dirs = nil
		for _, name := range []string{"dev", "edge"} {
			if dir, err := lifecycle.DataDir(name); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	token, err := operator.Find(f.URL, dirs...)
	o.Token, o.NoToken = string(token), err
	return o
}

type auditListCommand struct {
	auditFlags
	auditFilter
	Limit int  `default:"50" placeholder:"N" help:"How many at most; 0 is all (default ${default})."`
	All   bool `help:"Also list that a call began when its end is recorded too."`
}

// Help implements kong's HelpProvider.
func (auditListCommand) Help() string {
	return `Examples:
  busbar audit ls --since 1h
  busbar audit ls --principal ada --outcome forbidden --json
  busbar audit ls --name deleteFile --since 2026-01-01 --until 2026-02-01 --limit 0

Run it on the edge's own machine, as a user who can read its data directory; or
with a token whose role reads the trail of its tenant.`
}

func (c *auditListCommand) Run(ctx context.Context, out io.Writer) error {
	o := c.audit()
	o.Filter, o.Most = c.values(), c.Limit
	if c.All {
		o.Filter.Set("all", "true")
	}
	return exit(client.RunAuditList(ctx, o, out, os.Stderr))
}

type auditTailCommand struct {
	auditFlags
	auditFilter
	Follow bool `short:"f" help:"Go on until interrupted, and print each event that reaches the trail."`
	Limit  int  `default:"10" placeholder:"N" help:"How many earlier events to print first (default ${default})."`
	All    bool `help:"Also print that a call began."`
}

// Help implements kong's HelpProvider.
func (auditTailCommand) Help() string {
	return `Examples:
  busbar audit tail -f
  busbar audit tail -f --outcome forbidden --json

Events are printed in the order in which they reach the trail: a call at its end.
If the connection is lost, it tries again, and goes on after the last event.
Its own requests are recorded, as at most two events a minute, and not printed.
--timeout is for each request.

Exit status: 0 done, also after Ctrl-C; 2 wrong usage; 3 the edge refused; 4 the
trail could not be read.`
}

func (c *auditTailCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.AuditTailOptions{AuditOptions: c.audit(), Follow: c.Follow}
	o.Filter, o.Most = c.values(), c.Limit
	o.FindToken = func() string { return c.audit().Token }
	switch {
	case c.Follow && c.Until != "":
		return fmt.Errorf("--until: it cannot be used with --follow, which goes on until it is interrupted")
	case !c.Follow && c.Limit <= 0:
		return fmt.Errorf("--limit: without --follow it must be at least 1, not %d", c.Limit)
	}
	if c.All {
		o.Filter.Set("all", "true")
	}
	return exit(client.RunAuditTail(ctx, o, out, os.Stderr))
}

type auditShowCommand struct {
	auditFlags
	ID string `arg:"" help:"ID of a call or an event as listed; four characters of its end or beginning are enough, if they are unique."`
}

// Help implements kong's HelpProvider.
func (auditShowCommand) Help() string {
	return `Example: busbar audit show K3J5V6Q2`
}

func (c *auditShowCommand) Run(ctx context.Context, out io.Writer) error {
	o := c.audit()
	o.ID = c.ID
	return exit(client.RunAuditShow(ctx, o, out, os.Stderr))
}

type auditVerifyCommand struct{ auditFlags }

// Help implements kong's HelpProvider.
func (auditVerifyCommand) Help() string {
	return `Example: busbar audit verify --timeout 5m

Exit status: 0 nothing was tampered with; 1 something was, and the first bad row
of each tenant is named; other as for "busbar call".`
}

func (c *auditVerifyCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunAuditVerify(ctx, c.audit(), out, os.Stderr))
}

type auditRedeliverCommand struct{ auditFlags }

// Help implements kong's HelpProvider.
func (auditRedeliverCommand) Help() string {
	return `Example: busbar audit redeliver --timeout 5m

An event that the audit service cannot write is put aside in stream DLQ after ten
tries. This writes those events to the ends of their chains, in the order in which
they were put aside, and removes them from the stream once they are stored. It may
be interrupted and repeated: the trail takes each event once.

Exit status: 0 nothing is left in the stream; 1 some events cannot be written, and
each is named; other as for "busbar call".`
}

func (c *auditRedeliverCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunAuditRedeliver(ctx, c.audit(), out, os.Stderr))
}

type auditExportCommand struct {
	auditFlags
	auditFilter
}

// Help implements kong's HelpProvider.
func (auditExportCommand) Help() string {
	return `Example: busbar audit export --since 30d --timeout 0 > trail.jsonl`
}

func (c *auditExportCommand) Run(ctx context.Context, out io.Writer) error {
	o := c.audit()
	o.Filter = c.values()
	return exit(client.RunAuditExport(ctx, o, out, os.Stderr))
}
