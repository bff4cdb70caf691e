package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/services/text"
)

// busFlags are what every single service needs.
type busFlags struct {
	NATS string `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated."`
}

type textCommand struct{ busFlags }

// Help implements kong's HelpProvider.
func (textCommand) Help() string { return `Example: busbar text --nats nats://127.0.0.1:4222` }

func (c *textCommand) Run(ctx context.Context) error {
	s := text.New(version)
	conn, err := bus.Connect(ctx, bus.Config{URL: c.NATS, Name: s.Name()})
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.Run(ctx, conn)
}
