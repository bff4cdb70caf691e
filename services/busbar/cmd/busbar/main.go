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

	Dev        devCommand        `cmd:"" help:"Run the whole system in this process, on an embedded NATS server."`
	Stdio      stdioCommand      `cmd:"" help:"Serve one MCP client on standard input and output."`
	Edge       edge.Command      `cmd:"" help:"Run one edge of a fleet."`
	Tools      toolsCommand      `cmd:"" help:"List the tools of an edge, or show all of one."`
	Call       callCommand       `cmd:"" help:"Call a tool."`
	Task       taskCommands      `cmd:"" help:"See, or end, a call that goes on as a task."`
	Resources  resourcesCommand  `cmd:"" help:"List the resources of an edge."`
	Read       readCommand       `cmd:"" help:"Print a resource."`
	Prompts    promptsCommand    `cmd:"" help:"List the prompts of an edge, or fill one in and print it."`
	Complete   completeCommand   `cmd:"" help:"Print what an argument may be."`
	Batch      batchCommand      `cmd:"" help:"Make the calls of a file concurrently."`
	Approve    approveCommand    `cmd:"" help:"Decide on calls that are held, or list them."`
	Ready      readyCommand      `cmd:"" help:"Ask an edge whether it can carry calls."`
	Services   serviceCommand    `cmd:"" help:"List the services of a bus, or give a name to one of them."`
	Bus        busCommands       `cmd:"" help:"Look at the buckets and streams of a bus, or make them."`
	Doctor     doctorCommand     `cmd:"" help:"Look at everything, and say what is wrong and what mends it."`
	Top        topCommand        `cmd:"" help:"Show what the instances on a bus do, live."`
	Logs       logsCommand       `cmd:"" help:"Show what calls log, while they log it."`
	NATSConfig natsConfigCommand `cmd:"" name:"nats-config" help:"Make the users of a bus: their secrets, and the configuration of NATS that knows them."`
	Access     accessCommands    `cmd:"" help:"Try a policy file, which says who may do what."`
	Key        keyCommand        `cmd:"" help:"Make, list and revoke API keys."`
	Init       initCommand       `cmd:"" help:"Write a service to start from."`
	Completion completionCommand `cmd:"" help:"Print what makes a shell complete this program."`
	Suggest    suggestCommand    `cmd:"" name:"__complete" hidden:"" passthrough:""`
	Audit      auditCommands     `cmd:"" help:"Read the audit trail, or run the service that keeps it."`
}

const description = `Busbar serves the Model Context Protocol from independent services on a NATS bus.

Start with "busbar dev", then "busbar tools" in a second terminal.`

func main() {
	cl, options := grammar()
	lifecycle.Main("busbar", description, cl, options...)
}

func grammar() (*commandLine, []kong.Option) {
	options := []kong.Option{kong.Vars{"default_url": client.DefaultURL}, kong.UsageOnError(), kong.PostBuild(examples)}
	for _, p := range parts() {
		options = append(options, kong.DynamicCommand(p.command, p.help+".", "Services:", p.program))
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

type serviceCommand struct {
	List   edge.ListServices `cmd:"" default:"withargs" help:"List services, their instances and versions, what they offer, and names that two services offer."`
	Assign edge.AssignName   `cmd:"" help:"Give a name to a service, whoever has it."`
}

type busCommands struct {
	Check edge.CheckBus `cmd:"" help:"Say which buckets and streams are there, on how many servers, how full, and what is wrong."`
	Apply edge.ApplyBus `cmd:"" help:"Make the buckets and streams, or bring them up to date."`
}

type keyCommand struct {
	Create edge.CreateKey `cmd:"" help:"Make an API key for a principal, and print it once."`
	Ls     edge.ListKeys  `cmd:"" help:"List API keys, their principals, and when each was used last."`
	Revoke edge.RevokeKey `cmd:"" help:"End an API key, at every edge and at once."`
}
