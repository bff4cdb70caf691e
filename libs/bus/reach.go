package bus

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// How an attempt finds out whether its instance can still be reached, and what became of the call:
// NATS keeps nothing for a process that is switching servers.

// around is what the attempt sees of the bus.
func (a *attempt) around() flow.Around {
	conn, around := a.caller.conn, a.others()
	around.Connected, around.Received = conn.Connected(), conn.received()
	around.Delivered, around.Pending = a.caller.delivered.Load(), a.caller.pending()
	return around
}

// others is the part of around that says where the call could go.
func (a *attempt) others() flow.Around {
	conn := a.caller.conn
	return flow.Around{
		Others:    conn.members.others(a.service, a.options.Only, a.tried),
		Clustered: a.options.Harmless && conn.Clustered(),
	}
}

// received returns the number of bytes received from the bus.
func (c *Conn) received() uint64 { return c.network.read.Load() }

// pending returns the number of received frames that have not been delivered to their calls.
func (c *Caller) pending() uint64 {
	n := 0
	for _, sub := range c.answers {
		if waiting, _, err := sub.Pending(); err == nil {
			n += waiting
		}
	}
	return uint64(n)
}

// flush flushes the connection, and has flushed say how long that took. After it, everything that the
// bus had for this process has arrived, or the connection is lost and nothing is in transit.
func (a *attempt) flush() {
	if a.unflush != nil {
		a.unflush()
	}
	took := make(chan time.Duration, 1)
	ctx, end := context.WithDeadline(context.Background(), a.deadline)
	a.flushed, a.unflush = took, end
	nc := a.caller.conn.nc
	go func() {
		defer end()
		begun := time.Now()
		_ = nc.FlushWithContext(ctx) // it fails when the connection is lost
		took <- time.Since(begun)
	}()
}

// became is the instance's answer to what became of a call. frame is its end, if it has ended.
type became struct {
	fate  flow.Fate
	frame *busv1.Frame
}

// ask asks the instance what became of the call. It first waits until a lost connection has found
// another server. The answer arrives within 250 ms of that, or when ctx ends.
func (a *attempt) ask(ctx context.Context) {
	if a.unask != nil {
		a.unask()
	}
	said, instance := make(chan became, 1), a.holder()
	ctx, end := context.WithCancel(ctx)
	a.told, a.unask = said, end
	caller, service, id := a.caller, a.service, a.id
	go func() {
		defer end()
		var b became
		caller.conn.Settle(ctx)
		b.fate, b.frame, _ = caller.outcome(ctx, callAnswer, service, instance, id)
		said <- b
	}()
}

// holder is the instance that has the call, empty while it is not known.
func (a *attempt) holder() string { return a.state.Holder(a.others()) }

// probe asks NATS whether the instance that has the call is still connected, or any instance of the
// service if it is not known which one has it. NATS reports at once if the process has ended. If it
// is connected, it is slow or stopped.
func (a *attempt) probe() bool {
	// The message belongs to no call; only its delivery matters.
	at := subject.Cancel(a.service)
	if holder := a.holder(); a.caller.service != "" {
		at = subject.CancelFrom(a.caller.service)
	} else if holder != "" {
		at = subject.Permit(a.service, holder)
	}
	return a.caller.conn.nc.PublishRequest(at, a.reply, nil) == nil
}
