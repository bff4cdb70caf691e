package edges

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// fetch gives f the messages of the event stream: see bus.Conn.Fetch.
func fetch(ctx context.Context, conn *bus.Conn, q bus.Query, f func(msg *nats.Msg, seq uint64) bool) error {
	if err := conn.Fetch(ctx, EventStream.Name, q, f); err != nil {
		return notKept(err)
	}
	return nil
}

// notKept is the error for an answer that cannot be read; whether the call ran is unknown.
func notKept(err error) error {
	return fault.New(fault.Unavailable, "what is kept for clients is not reachable; try again shortly").Ran(fault.Unknown).Because(err)
}
