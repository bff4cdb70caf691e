package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Before a call that may have an effect begins, its instance asks the caller (a Ready frame), and
// without a permit nothing runs (ADR 0016). So the caller knows what did not run, whatever happened
// to the instance, the bus or the clocks. The caller's side is decide and permit; the instance's side
// is permitted and heard. Each question has a number, turn: after a silence the
// instance asks with a new number, so that a permit whose caller has given up since does not count.

// decide asks Options.Permit whether the call may begin.
func (a *attempt) decide(ctx context.Context) flow.Kind {
	if a.state.Phase == flow.Leaving {
		ctx = context.WithoutCancel(ctx)
	}
	instance := a.state.By
	if permit := a.options.Permit; permit != nil && (!a.asked || a.consented != instance) {
		bounded, cancel := context.WithDeadline(ctx, a.deadline)
		err := permit(bounded, instance)
		cancel()
		if err != nil && a.over(ctx) == nil {
			if a.why = fault.From(err); !errors.As(err, new(*fault.Error)) {
				a.why = a.why.Ran(fault.No)
			}
			return flow.Denied
		}
		if err == nil {
			a.consented, a.asked = instance, true
		}
	}
	if a.over(ctx) != nil {
		return flow.Over
	}
	return flow.Agreed
}

// left reports whether the caller leaves the call to whoever follows its stream.
func left(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeft) }

// permit sends the permit, and reports whether it was sent. It has a reply subject, so that NATS
// reports it if nobody receives it, and the caller still waits for that.
func (a *attempt) permit(turn uint32) bool {
	reply := a.reply
	if a.state.Phase == flow.Leaving {
		reply = ""
	}
	return a.say(a.state.By, true, reply, turn)
}

// say tells one instance whether the call may begin there. It reports false if the message was not
// sent.
func (a *attempt) say(instance string, granted bool, reply string, turn uint32) bool {
	data, err := proto.Marshal(&busv1.Permit{Id: a.id, Granted: granted, Turn: turn})
	if err == nil {
		msg := &nats.Msg{Subject: subject.Permit(a.service, instance), Reply: reply, Data: data}
		err = a.caller.conn.nc.PublishMsg(msg) // fault:permit-twice
	}
	if err != nil {
		a.caller.conn.log.Debug("permit not sent", "service", a.service, "error", err)
	}
	return err == nil
}

// permitted waits for the caller's permit for a call that is about to begin. If the process was
// suspended meanwhile, the permit may be from a caller that has given up since, so it asks again.
func (s *Server) permitted(ctx context.Context, call *liveCall, out *Responder) *fault.Error {
	out.ask(true)
	defer out.ask(false)
	late := time.NewTimer(flow.PermitTime)
	defer late.Stop()
	for {
		reply := flow.CallerGone
		select {
		case p := <-call.permit:
			reply = out.heard(p)
		case <-late.C:
		case <-ctx.Done():
		}
		deadline, _ := ctx.Deadline() // a timer that is due may not have run yet
		switch over := ctx.Err() != nil || !time.Now().Before(deadline); {
		case reply == flow.Unwanted:
			return fault.New(fault.Cancelled, "its caller does not want the call any more; nothing was started").Ran(fault.No)
		case over:
			return tooLate(s.cfg.Service)
		case reply == flow.CallerGone:
			return fault.New(fault.Unavailable, "the edge that made the call is gone; nothing was started: call again").Ran(fault.No)
		case reply == flow.Begin:
			return nil
		}
	}
}

// heard receives a caller's permit or refusal.
func (s *Server) heard(msg *nats.Msg) {
	p := &busv1.Permit{}
	if proto.Unmarshal(msg.Data, p) != nil {
		return
	}
	s.mu.Lock()
	call := s.live[p.Id]
	s.mu.Unlock()
	if call == nil {
		return
	}
	select {
	case call.permit <- p:
	default: // a copy
	}
}
