package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Before a call that may have an effect begins, its instance asks the caller (a Ready frame), and
// without a permit nothing runs (ADR 0016). So the caller knows what did not run, whatever happened
// to the instance, the bus or the clocks. The caller's side is asked, permit and consent; the
// instance's side is permitted and heard. Each question has a number, turn: after a silence the
// instance asks with a new number, so that a permit whose caller has given up since does not count.

// permitTime is how long an instance asks. A caller that has not answered by then is gone.
// Options.Permit may take 2 s of it.
const permitTime = 3 * time.Second

// asked answers an instance that is ready to begin.
func (a *attempt) asked(ctx context.Context, instance string, turn uint32) *fault.Error {
	if !a.asks && !a.permitted || !subject.Token(instance) {
		return nil // nothing to ask about
	}
	if a.permitted {
		if a.instance == "" {
			a.instance = instance
		}
		// The first permit was lost, or crossed with the question.
		if instance == a.instance {
			a.permit(turn)
		} else {
			a.say(instance, false, "", turn)
		}
		return nil
	}
	if f := a.consent(ctx, instance); f != nil {
		if a.left(ctx) && !a.refused {
			a.from = instance // leave decides
			return f
		}
		a.say(instance, false, "", turn)
		a.terminal = true
		return f
	}
	a.instance = instance
	a.permit(turn)
	a.permitted = a.permitsSent > 0
	return nil
}

// permit sends the permit. It has a reply subject, so that NATS reports it if nobody receives it.
func (a *attempt) permit(turn uint32) {
	if a.say(a.instance, true, a.reply, turn) {
		a.permitsSent++
	}
}

// begun records that the service runs the call without asking: it is older than its announcement
// said, or breaks the protocol. The call then counts as permitted, and a refusal can only end it.
func (a *attempt) begun(ctx context.Context, instance string) *fault.Error {
	a.permitted, a.instance = true, instance
	if f := a.consent(ctx, instance); f != nil {
		return f.Ran(fault.Unknown)
	}
	return nil
}

// consent asks Options.Permit whether the call may begin.
func (a *attempt) consent(ctx context.Context, instance string) *fault.Error {
	if permit := a.options.Permit; permit != nil && (a.consented == nil || *a.consented != instance) {
		bounded, cancel := context.WithDeadline(ctx, a.deadline)
		err := permit(bounded, instance)
		cancel()
		if err != nil && a.over(ctx) == nil {
			a.refused = true
			f := fault.From(err)
			if !errors.As(err, new(*fault.Error)) {
				f = f.Ran(fault.No)
			}
			return f
		}
		if err == nil {
			a.consented = &instance
		}
	}
	if f := a.over(ctx); f != nil {
		return f.Ran(fault.No)
	}
	return nil
}

// over returns why the caller no longer waits; nil while it does.
func (a *attempt) over(ctx context.Context) *fault.Error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), !time.Now().Before(a.deadline):
		return wire.TimedOut(a.service)
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, "cancelled")
	}
	return nil
}

// left reports whether the caller leaves the call to whoever follows its stream.
func (a *attempt) left(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeft) }

// leave permits a call that the caller leaves to the followers of its stream, because they cannot
// permit it. Without a permit, the instance asks until permitTime is over, and then tells them that
// nothing ran.
func (a *attempt) leave(ctx context.Context) {
	if !a.asks || a.permitted || a.refused || a.from == "" {
		return
	}
	if a.consent(context.WithoutCancel(ctx), a.from) == nil {
		a.permitted, a.instance = a.say(a.from, true, "", 0), a.from
	}
}

// say tells one instance whether the call may begin there. It reports false if the message was not
// sent.
func (a *attempt) say(instance string, granted bool, reply string, turn uint32) bool {
	data, err := proto.Marshal(&busv1.Permit{Id: a.id, Granted: granted, Turn: turn})
	if err == nil {
		msg := &nats.Msg{Subject: subject.Permit(a.service, instance), Reply: reply, Data: data}
		err = a.caller.conn.nc.PublishMsg(msg)
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
	until := time.Now().Add(permitTime)
	late := time.NewTimer(permitTime)
	defer late.Stop()
	gone := fault.New(fault.Unavailable, "the edge that made the call is gone; nothing was started: call again").Ran(fault.No)
	for {
		select {
		case p := <-call.permit:
			// A timer that is due may not have run yet.
			deadline, _ := ctx.Deadline()
			switch now := time.Now(); {
			case !p.Granted:
				return fault.New(fault.Cancelled, "its caller does not want the call any more; nothing was started").Ran(fault.No)
			case ctx.Err() != nil, !now.Before(deadline):
				return tooLate(s.cfg.Service)
			case !now.Before(until):
				return gone
			case out.fits(p.Turn):
				return nil
			}
		case <-late.C:
			return gone
		case <-ctx.Done():
			return tooLate(s.cfg.Service)
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
