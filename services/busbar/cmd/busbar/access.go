package main

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// accessCommands are what can be done with a policy file.
type accessCommands struct {
	Check    accessCheckCommand   `cmd:"" help:"Find mistakes in a policy file."`
	Explain  accessExplainCommand `cmd:"" help:"Say which rule decides on a call."`
	Who      accessWhoCommand     `cmd:"" help:"Ask an edge who you are to it."`
	Limits   accessLimitsCommand  `cmd:"" help:"Ask an edge how much of your limits is left."`
	Accept   accessAcceptCommand  `cmd:"" help:"Accept definitions of tools that the policy file pins; without a tool, list those that wait."`
	Services edge.ListGrants      `cmd:"" help:"Print what the services of a bus offer, as section services of a policy file."`
}

type accessCheckCommand struct {
	clientFlags
	File string `arg:"" help:"The policy file."`
}

// Help implements kong's HelpProvider.
func (accessCheckCommand) Help() string {
	return `Examples:
  busbar access check access.yaml
  busbar access check access.yaml --url https://mcp.example --json

Looks for mistakes, rules that never decide, and roles that nobody has; and for
names of tools that the edge does not have, if it can be asked: it shows those
that the token may see.

Exit status: 0 the file is in order; 1 it is not; 2 wrong usage.`
}

func (c *accessCheckCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunAccessCheck(ctx, client.AccessCheckOptions{Options: c.options(), File: c.File}, out, os.Stderr))
}

type accessExplainCommand struct {
	File     string   `name:"access" required:"" env:"BUSBAR_ACCESS" placeholder:"FILE" help:"The policy file."`
	As       string   `placeholder:"NAME" help:"The principal who calls. Without it, a caller without credentials."`
	Tenant   string   `placeholder:"NAME" help:"Its tenant. Default that of the file."`
	Role     []string `placeholder:"NAME" help:"A role that the credentials bring, such as one of a token; may be repeated."`
	Scope    []string `placeholder:"NAME" help:"A scope of the token; may be repeated."`
	JSON     bool     `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
	Target   string   `arg:"" help:"What is called: tools/NAME, resources/URI, prompts/NAME or sampling/createMessage."`
	Argument string   `arg:"" optional:"" name:"json" help:"Arguments as a JSON object, @FILE to read them from a file, or - from standard input."`
}

// Help implements kong's HelpProvider.
func (accessExplainCommand) Help() string {
	return `Examples:
  busbar access explain --access access.yaml --as anna tools/delete_resource '{"uri":"note://1"}'
  busbar access explain --access access.yaml --as u-17 --tenant acme --role analyst resources/note://1
  busbar access explain --access access.yaml tools/echo

No edge is asked. In conditions, the target counts as a tool that is not read-only.

Exit status: 0 allowed; 1 denied; 2 wrong usage.`
}

func (c *accessExplainCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.AccessExplainOptions{
		Options: client.Options{JSON: c.JSON}, File: c.File, Target: c.Target, Argument: c.Argument,
		Who: gateway.Principal{Name: c.As, Tenant: c.Tenant, Roles: c.Role, Scopes: c.Scope},
	}
	return exit(client.RunAccessExplain(ctx, o, os.Stdin, out, os.Stderr))
}

type accessWhoCommand struct{ clientFlags }

// Help implements kong's HelpProvider.
func (accessWhoCommand) Help() string {
	return `Examples:
  busbar access who
  BUSBAR_TOKEN=… busbar access who --url https://mcp.example --json

Exit status: 0 done; 3 the edge refused the credentials; 4 it could not be reached.`
}

func (c *accessWhoCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunAccessWho(ctx, c.options(), out, os.Stderr))
}

type accessAcceptCommand struct{ edge.AcceptTools }

func (c *accessAcceptCommand) Run(ctx context.Context, out io.Writer) error {
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		c.Ask = func(ctx context.Context, question string) (bool, error) {
			return client.Confirm(ctx, question, os.Stdin, os.Stderr)
		}
	}
	return c.AcceptTools.Run(ctx, out)
}

type accessLimitsCommand struct {
	auditFlags
	As     string `placeholder:"NAME" help:"The principal whose limits to print. Default: the caller."`
	Tenant string `placeholder:"NAME" help:"The tenant of that principal."`
}

// Help implements kong's HelpProvider.
func (accessLimitsCommand) Help() string {
	return `Examples:
  BUSBAR_TOKEN=… busbar access limits
  busbar access limits --as anna --tenant acme --json

Everybody may ask for their own limits and their tenant's. Asking does not count.
The limits of others need the token in the edge's data directory, on the edge's own
machine.

Exit status: 0 done; 2 wrong usage; 3 the edge refused; 4 it could not be reached.`
}

func (c *accessLimitsCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.AccessLimitsOptions{AuditOptions: c.audit(), As: c.As, Tenant: c.Tenant}
	return exit(client.RunAccessLimits(ctx, o, out, os.Stderr))
}
