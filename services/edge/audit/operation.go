package audit

import (
	"context"
	"fmt"
	"time"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Operation does an operator's work on the bus itself, past all edges, and records its
// beginning and its end as a call. If the trail does not take the beginning, the work
// does not begin.
func Operation(ctx context.Context, conn *bus.Conn, method, name, service string, do func() error) error {
	log, err := auditlog.New(conn, "operator")
	if err != nil {
		return err
	}
	id, began := bus.NewCallID(), time.Now()
	record := func(suffix, outcome string, executed fault.Executed) error {
		return log.Append(ctx, &auditv1.AuditEvent{
			Id: id + suffix, Call: id, TimeUnixNano: uint64(began.UnixNano()), Edge: "operator", Principal: "operator", Door: "command line",
			Method: method, Name: plain(name, maxName), Service: service, Effect: true,
			Outcome: outcome, Executed: string(executed), DurationNano: uint64(time.Since(began)),
		})
	}
	if err := record("-1", Begun, fault.Unknown); err != nil {
		if denied := conn.Denied(); denied != nil {
			return fmt.Errorf("nothing was done: the secret that was given is not the operator's; give that one with --nats-nkey operator.secret, which \"busbar nats-config\" makes: %w", denied)
		}
		return fmt.Errorf("nothing was done, since the audit trail does not take that it begins: "+
			"join the bus as its operator (--nats-nkey operator.secret), and see that an edge or the audit service has run on it: %w", err)
	}
	outcome, executed := "ok", fault.Yes
	failed := do()
	if failed != nil {
		f := fault.From(failed)
		outcome, executed = string(f.Reason), f.Executed
	}
	// Even if the operator no longer waits for it.
	var stop context.CancelFunc
	ctx, stop = context.WithTimeout(context.WithoutCancel(ctx), appendTime)
	defer stop()
	if err := record("-2", outcome, executed); failed == nil && err != nil {
		return fmt.Errorf("it is done, but the trail does not have its end: %w", err)
	}
	return failed
}
