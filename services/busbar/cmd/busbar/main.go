// Command busbar runs all of Busbar in one process, any single part of it for
// a fleet, and is its command-line client.
package main

import (
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/edge"
)

// commandLine is the whole interface, besides a command for each service; every
// flag has an environment variable.
type commandLine struct {
	lifecycle.Flags

	Tools     toolsCommand     `cmd:"" group:"call" help:"List the tools of an edge, or describe one."`
	Call      callCommand      `cmd:"" group:"call" help:"Call a tool."`
	Batch     batchCommand     `cmd:"" group:"call" help:"Make the calls of a file concurrently."`
	Task      taskCommands     `cmd:"" group:"call" help:"List, read or cancel calls that run as tasks."`
	Approve   approveCommand   `cmd:"" group:"call" help:"Decide on held calls, or list them."`
	Resources resourcesCommand `cmd:"" group:"call" help:"List the resources of an edge."`
	Read      readCommand      `cmd:"" group:"call" help:"Print a resource."`
	Prompts   promptsCommand   `cmd:"" group:"call" help:"List the prompts of an edge, or fill one in and print it."`
	Complete  completeCommand  `cmd:"" group:"call" help:"Print suggestions for an argument of a prompt or a resource template."`

	Dev   devCommand   `cmd:"" group:"run" help:"Run the whole system in this process, with a NATS server inside."`
	Stdio stdioCommand `cmd:"" group:"run" help:"Serve one MCP client on standard input and output."`
	Edge  edge.Command `cmd:"" group:"run" help:"Run one edge of a fleet."`

	Ready      readyCommand      `cmd:"" group:"operate" help:"Ask an edge whether it can carry calls."`
	Services   serviceCommand    `cmd:"" group:"operate" help:"List the services on a bus, or give a name to one of them."`
	Top        topCommand        `cmd:"" group:"operate" help:"Show calls and errors of instances or tools, live."`
	Logs       logsCommand       `cmd:"" group:"operate" help:"Print what calls log, as they log it."`
	Doctor     doctorCommand     `cmd:"" group:"operate" help:"Check everything, and say what is wrong and how to mend it."`
	Bus        busCommands       `cmd:"" group:"operate" help:"Check the buckets and streams of a bus, or create them."`
	NATSConfig natsConfigCommand `cmd:"" group:"operate" name:"nats-config" help:"Create the users of a bus, their secrets, and the NATS configuration for them."`

	Access accessCommands `cmd:"" group:"access" help:"Check a policy file, and ask what callers may do."`
	Key    keyCommand     `cmd:"" group:"access" help:"Create, list and revoke API keys."`

	Audit auditCommands `cmd:"" group:"audit" help:"Read and verify the audit trail, or run the service that keeps it."`

	Init       initCommand       `cmd:"" group:"write" help:"Write a new service to start from."`
	Completion completionCommand `cmd:"" group:"write" help:"Print a shell completion script."`
	Suggest    suggestCommand    `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

// groups are the groups of commands, in the order of the help.
var groups = []kong.Group{
	{Key: "call", Title: "Call tools, and use what services offer:"},
	{Key: "run", Title: "Run a system, an edge or a service:"},
	{Key: "operate", Title: "Operate a system:"},
	{Key: "access", Title: "Control access:"},
	{Key: "audit", Title: "Audit calls:"},
	{Key: "write", Title: "Write a service:"},
}

const description = `Busbar serves the Model Context Protocol from independent services on a NATS bus.

Start with "busbar dev", then "busbar tools" in a second terminal.`

func main() {
	cl, options := grammar()
	lifecycle.Main("busbar", description, cl, options...)
}

func grammar() (*commandLine, []kong.Option) {
	options := []kong.Option{kong.Vars{"default_url": client.DefaultURL}, kong.UsageOnError(), kong.PostBuild(examples), kong.ExplicitGroups(groups)}
	for _, p := range parts() {
		options = append(options, kong.DynamicCommand(p.command, p.help+".", "run", p.program))
	}
	return &commandLine{Audit: auditCommands{Serve: *service.NewCommand("audit", audit.New)}}, options
}

// examples gives each command that runs a service an example, with its name, and each
// group of commands the examples of its first one.
func examples(k *kong.Kong) error {
	return kong.Visit(k.Model, func(n kong.Visitable, next kong.Next) error {
		if c, ok := n.(*kong.Command); ok && c.Type == kong.CommandNode && len(c.Children) > 0 && c.Detail == "" {
			c.Detail, _, _ = strings.Cut(c.Children[0].Detail, "\n\n")
		}
		if c, ok := n.(*kong.Command); ok && c.Target.CanAddr() && c.Target.Addr().Type().Implements(reflect.TypeFor[program]()) {
			c.Detail = "Example: " + c.FullPath() + " --nats nats://127.0.0.1:4222"
		}
		return next(nil)
	})
}

type busCommands struct {
	Check edge.CheckBus `cmd:"" help:"List buckets and streams with their copies and sizes, and say what is wrong."`
	Apply edge.ApplyBus `cmd:"" help:"Create the buckets and streams, or bring them up to date."`
}

type keyCommand struct {
	Create edge.CreateKey `cmd:"" help:"Create an API key for a principal, and print it once."`
	Ls     edge.ListKeys  `cmd:"" help:"List API keys with their principals and last use."`
	Revoke edge.RevokeKey `cmd:"" help:"Revoke an API key at every edge, at once."`
}
