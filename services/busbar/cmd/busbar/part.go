package main

import (
	"context"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/text"
)

// busFlags are what every single service needs.
type busFlags struct {
	NATS string `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
}

type textCommand struct{ busFlags }

// Help implements kong's HelpProvider.
func (textCommand) Help() string { return `Example: busbar text --nats nats://127.0.0.1:4222` }

func (c *textCommand) Run(ctx context.Context, out stdout) error {
	s := text.New(version)
	conn, err := bus.Connect(ctx, bus.Config{URL: c.NATS, Name: s.Name()})
	if err != nil {
		return err
	}
	defer conn.Close()
	running, err := s.Start(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "busbar %s is ready: nats=%s\n", s.Name(), conn.URL())
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	return running.Stop(drain)
}
