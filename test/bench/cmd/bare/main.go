// Command bare runs an edge, an embedded NATS server and the text service in one process,
// without the links of the chain that can be left out: no policy, no limits, and no audit
// trail, which no program that is shipped can do without.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/text"
)

type program struct {
	lifecycle.Flags
	edge.ListenFlags
	DataDir string `required:"" help:"Where NATS keeps its streams."`
}

func main() { lifecycle.Main("bare", "Busbar without an audit trail, for measurements.", new(program)) }

// Run serves until ctx ends. It is called by kong.
func (p *program) Run(ctx context.Context, out io.Writer) error {
	l, err := p.Open(false)
	if err != nil {
		return err
	}
	defer l.Close()
	nats, err := natsd.Start(natsd.Config{DataDir: p.DataDir})
	if err != nil {
		return err
	}
	defer nats.Stop()
	connect := func(name string) (*bus.Conn, error) {
		return bus.Connect(ctx, bus.Config{URL: nats.URL(), Name: name})
	}
	edgeConn, err := connect("edge")
	if err != nil {
		return err
	}
	defer edgeConn.Close()
	e, err := edge.New(ctx, edgeConn, edge.Config{Version: lifecycle.Version(), Guard: p.Guard(), Audit: edge.Audit{Off: true}})
	if err != nil {
		return err
	}
	defer e.Close()
	textConn, err := connect("text")
	if err != nil {
		return err
	}
	defer textConn.Close()
	running, err := service.NewCommand("text", text.New).Start(ctx, textConn, service.DataEnv{Env: service.Env{Log: slog.Default()}, DataDir: os.TempDir()})
	if err != nil {
		return err
	}
	defer func() { _ = running.Stop(context.WithoutCancel(ctx)) }()
	if err := e.Await(ctx, "text"); err != nil {
		return err
	}
	fmt.Fprintf(out, "busbar bare is ready: %s\n", l)
	return e.ServeAll(ctx, l)
}
