package bus

import (
	"context"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A request or an answer can be lost: NATS keeps nothing for a caller, or an instance, that
// is about to find another server. After a silence the caller asks the instance, which
// remembers for some seconds how calls with an effect ended.

// missing is what the instance says.
type missing struct {
	state CallState
	frame *busv1.Frame
}

// has is the instance that the call was given to; empty while that is not known.
func (a *answer) has() string {
	switch {
	case a.instance != "":
		return a.instance
	case a.from != "":
		return a.from
	case a.at != "":
		return a.at
	}
	if all := a.others(""); len(all) == 1 {
		return all[0] // who else
	}
	return ""
}

// askable reports whether what the instance says is of use: it remembers calls that asked,
// and those without effect are made again when they are not there.
func (a *answer) askable() bool {
	return (a.asks || a.options.Harmless) && a.caller.service == "" && subject.Token(a.has())
}

// ask asks it, once a lost connection has found another server. The answer comes within
// 250 ms of that, or when ctx ends.
func (a *answer) ask(ctx context.Context) <-chan missing {
	said, instance := make(chan missing, 1), a.has()
	go func() {
		var m missing
		a.caller.conn.Settle(ctx)
		m.state, m.frame, _ = a.caller.outcome(ctx, callAnswer, a.service, instance, a.id)
		said <- m
	}()
	return said
}

// found is how the call ended, as its instance says.
func (a *answer) found(m missing) (*busv1.Frame, *fault.Error) {
	a.terminal = true
	switch {
	case m.state == CallEnded:
		a.size, a.pieces = 0, nil
		if err := a.keep(m.frame.GetResult().GetJson()); err != nil {
			return nil, err
		}
		return a.checked(m.frame)
	case m.state == CallNeverBegun && !(a.asks && a.heard), m.state == CallForgotten && a.repeatable():
		// And never will: it may be made again.
		if m.state == CallNeverBegun {
			a.permitted = false
		}
		a.stalled, a.strayed = false, true
		a.caller.cancel(a.service, a.id, string(fault.PeerLost)) // should it come yet
		return nil, a.lost()
	case m.state == CallGone:
		a.stalled = false
		return nil, a.lost().Because(ErrNoInstance)
	}
	return nil, a.torn()
}

func (a *answer) torn() *fault.Error {
	return fault.New(fault.PeerLost, "part of the answer of service %s was lost", a.service)
}
