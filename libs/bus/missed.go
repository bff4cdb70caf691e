package bus

import (
	"context"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A request or an answer can be lost: NATS keeps nothing for a process that is switching servers.
// After a silence the caller asks the instance, which remembers for 15 s how calls with an effect
// ended.

// missing is the instance's answer about a call.
type missing struct {
	state CallState
	frame *busv1.Frame
}

// holder returns the instance that the call was given to; empty while that is not known.
func (a *attempt) holder() string {
	switch {
	case a.instance != "":
		return a.instance
	case a.from != "":
		return a.from
	case a.at != "":
		return a.at
	}
	if all := a.others(""); len(all) == 1 {
		return all[0] // it must be the only one
	}
	return ""
}

// askable reports whether asking the instance helps. It remembers calls that asked for a permit;
// calls without effect are repeated if it does not know them.
func (a *attempt) askable() bool {
	return (a.asks || a.options.Harmless) && a.caller.service == "" && subject.Token(a.holder())
}

// ask asks the instance what became of the call. It first waits until a lost connection has found
// another server. The answer arrives within 250 ms of that, or when ctx ends.
func (a *attempt) ask(ctx context.Context) <-chan missing {
	said, instance := make(chan missing, 1), a.holder()
	go func() {
		var m missing
		a.caller.conn.Settle(ctx)
		m.state, m.frame, _ = a.caller.outcome(ctx, callAnswer, a.service, instance, a.id)
		said <- m
	}()
	return said
}

// found returns how the call ended according to its instance.
func (a *attempt) found(m missing) (*busv1.Frame, *fault.Error) {
	a.terminal = true
	switch {
	case m.state == CallEnded:
		a.size, a.pieces = 0, nil
		if err := a.keep(m.frame.GetResult().GetJson()); err != nil {
			return nil, err
		}
		return a.checked(m.frame)
	case m.state == CallNeverBegun && !(a.asks && a.heard), m.state == CallForgotten && a.repeatable():
		// It never will, so the call may be made again.
		if m.state == CallNeverBegun {
			a.permitted = false
		}
		a.stalled, a.strayed = false, true
		a.caller.cancel(a.service, a.id, string(fault.PeerLost)) // in case the request still arrives
		return nil, a.lost()
	case m.state == CallGone:
		a.stalled = false
		return nil, a.lost().Because(ErrNoInstance)
	}
	return nil, a.torn()
}

func (a *attempt) torn() *fault.Error {
	return fault.New(fault.PeerLost, "part of the answer of service %s was lost", a.service)
}
