package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/services/busbar/internal/tail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge/audit"
)

type logsCommand struct {
	join.Flags
	Follow  bool          `short:"f" help:"Continue until interrupted."`
	For     time.Duration `default:"5s" placeholder:"TIME" help:"Without --follow, how long to listen (default ${default})."`
	Service []string      `placeholder:"NAME" help:"Services to follow; all without it."`
	Tool    string        `placeholder:"NAME" help:"Only calls of this tool, prompt or resource."`
	Call    string        `placeholder:"ID" help:"Only the call whose id begins so; a task's id is one, too."`
	Tenant  string        `placeholder:"NAME" help:"Only calls of this tenant."`
	Level   string        `default:"info" placeholder:"LEVEL" help:"Least severe level: debug, info, notice, warning, error, critical, alert or emergency (default ${default})."`
	JSON    bool          `name:"json" env:"BUSBAR_JSON" help:"Print a line of JSON for each record."`
}

// Help implements kong's HelpProvider.
func (logsCommand) Help() string {
	return `Examples:
  busbar logs -f
  busbar logs -f --service orders --level warning --nats tls://nats.example:4222 --nats-nkey operator.secret

Prints what calls log from now on: log notifications, whether or not their clients
asked for them, and what handlers write to Call.Logger. Earlier records are not
kept. It needs the rights of an operator, who sees the calls of all tenants. The
audit trail records who followed.`
}

// followMethod stands in the audit trail for following.
const followMethod = "busbar/logs.follow"

// Validate implements kong's interface.
func (c *logsCommand) Validate() error {
	if c.For <= 0 {
		return errors.New("--for must be longer than 0s")
	}
	return c.filter().Check()
}

func (c *logsCommand) filter() logs.Filter {
	f := logs.Filter{Level: strings.ToLower(c.Level), Name: c.Tool, Call: c.Call, Tenant: c.Tenant}
	if f.Level == "warn" { // as in logs of programs
		f.Level = "warning"
	}
	return f
}

func (c *logsCommand) Run(ctx context.Context, out io.Writer) error {
	o := tail.Options{Services: c.Service, JSON: c.JSON, Terminal: term.IsTerminal(int(os.Stdout.Fd())), Filter: c.filter()}
	o.Style = terminal.NewStyle(o.Terminal, os.Getenv)
	joining, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	conn, err := c.ConnectNow(joining, permission.Operator, "logs")
	if err != nil {
		return err
	}
	defer conn.Close()
	return audit.Operation(ctx, conn, followMethod, c.what(), strings.Join(c.Service, ","), func() error {
		if !c.Follow {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, c.For)
			defer stop()
		}
		return tail.Run(ctx, conn, o, out, os.Stderr)
	})
}

// what is followed, as the audit trail has it.
func (c *logsCommand) what() string {
	var all []string
	for _, of := range [][2]string{{"tool", c.Tool}, {"call", c.Call}, {"tenant", c.Tenant}} {
		if of[1] != "" {
			all = append(all, of[0]+" "+of[1])
		}
	}
	return strings.Join(append(all, "from "+c.Level), ", ")
}
