package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// attempt is one try to carry out a call at one instance. CallWith makes a few of them. The package
// flow decides what to do: run prepares the request, wait receives an event, and step asks flow about
// it and acts.
type attempt struct {
	caller   *Caller
	service  string
	options  Options
	deadline time.Time
	// began is the time of the call's first attempt, and the zero of flow's times.
	began time.Time
	state flow.State

	id, reply, method string
	data              []byte
	exchange          *exchange
	// delegated is set if the service may call other tools for this call.
	delegated bool
	// tried are the instances that this attempt and earlier ones were sent to; first is its storage
	// for a few. member is the one that has the request now; nil if any instance may take it. full is
	// set if the previous attempt found no free slot.
	tried  []string
	first  [2]string
	member *member
	full   bool
	// server is the NATS server that the request was sent to.
	server *server
	// consented is the instance that Options.Permit agreed to, if asked is set.
	consented string
	asked     bool
	// arrived is the message with the frame that is being read.
	arrived *nats.Msg

	// pieces are the chunks received so far, size their total in bytes.
	pieces [][]byte
	size   int
	// complained is set once a malformed frame was logged.
	complained bool

	// flushed delivers the end of a flush, told the instance's answer to what became of the call; they
	// are nil if none is pending. The functions end what is pending.
	flushed        <-chan time.Duration
	told           <-chan became
	unflush, unask func()
	// why is the error for an end that flow knows no error for.
	why *fault.Error
}

// run makes the call at one instance.
func (a *attempt) run(ctx context.Context, req *busv1.Request) (*busv1.Frame, *fault.Error) {
	c, s := a.caller, a.options.Stream
	c.conn.Settle(ctx) // first: the remaining time is sent, and counts from its arrival
	left := max(1, time.Until(a.deadline)-flow.HopShave)
	req.DeadlineUnixNano, req.RemainingNano = uint64(c.conn.now().Add(left).UnixNano()), uint64(left)
	if s != nil {
		s.Next(a.service, req)
	}
	var seals *sealer
	if c.service == "" {
		seals = c.conn.sealer(a.service)
	}
	var err error
	if a.data, err = seals.seal(req); err != nil {
		return nil, fault.New(fault.InvalidParams, "request cannot be encoded").Because(err)
	}
	if limit := c.conn.nc.MaxPayload(); limit > 0 && int64(len(a.data)) > limit {
		return nil, fault.New(fault.TooLarge, "request is %d bytes on the bus; the limit is %d", len(a.data), limit)
	}
	a.id, a.method, a.delegated = req.Id, req.Method, len(req.Delegation) > 0
	a.reply = c.reply(a.service, req.Id)
	a.exchange = c.expect(a.reply, req.Stream)
	defer c.forget(a.exchange)
	guard := flow.Free
	if req.AskFirst {
		guard = flow.Ahead
		if c.conn.members.ask(a.service) {
			guard = flow.Asked
		}
	}
	frame, f := a.step(ctx, flow.Event{Kind: flow.Offer, Guard: guard}, nil)
	if f == nil {
		frame, f = a.wait(ctx)
	}
	if a.member != nil {
		c.conn.members.done(a.member, a.state.Instance())
	}
	return frame, f
}

// now is the time since the call was made.
func (a *attempt) now() time.Duration { return time.Since(a.began) }

// wait returns the frame that ends the call, or the reason why none will come.
func (a *attempt) wait(ctx context.Context) (*busv1.Frame, *fault.Error) {
	defer a.stop()
	x := a.exchange
	var batch []arrival
	for {
		x.timer.Reset(a.state.Next() - a.now())
		flushed := a.flushed
		if !a.state.Flushing {
			flushed = nil
		}
		var e flow.Event
		var answer *busv1.Frame
		select {
		case <-x.wake:
			x.mu.Lock()
			batch, x.queue = x.queue, batch[:0]
			overflow := x.overflow
			x.mu.Unlock()
			for _, got := range batch {
				if frame, f := a.take(ctx, got); frame != nil || f != nil {
					return frame, f
				}
			}
			clear(batch)
			if e.Kind = flow.Heard; overflow {
				e.Kind = flow.Flooded
			}
		case e.Took = <-flushed:
			e.Kind, e.Due = flow.Flushed, a.caller.delivered.Load()+a.caller.pending()
		case said := <-a.told:
			a.told, answer = nil, said.frame
			e.Kind, e.Fate, e.Waits = flow.Told, said.fate, x.waits()
		case <-a.server.ctx.Done():
			a.server = a.caller.conn.server.Load()
			a.stop()
			e.Kind, e.Around = flow.ServerLost, a.around()
		case <-ctx.Done():
			e.Kind, e.Left = flow.Over, left(ctx)
		case <-x.timer.C:
			e.Kind, e.Around = flow.Timer, a.around()
		}
		e.Now = a.now() // not the time at which a timer was due
		if frame, f := a.step(ctx, e, answer); frame != nil || f != nil {
			return frame, f
		}
	}
}

// stop ends what is pending.
func (a *attempt) stop() {
	for _, end := range []*func(){&a.unflush, &a.unask} {
		if *end != nil {
			(*end)()
			*end = nil
		}
	}
}

// step has flow decide about an event, and acts. frame is what has arrived, if the event is about that.
// It returns how the call ended; nil for both while it goes on.
func (a *attempt) step(ctx context.Context, e flow.Event, frame *busv1.Frame) (*busv1.Frame, *fault.Error) {
	for {
		var do flow.Do
		a.state, do = flow.Step(a.state, e)
		if do == 0 && a.state.End == flow.None {
			return nil, nil
		}
		if do&flow.Refuse != 0 {
			a.say(e.Instance, false, "", e.Turn)
		}
		if do&flow.Count != 0 {
			a.count(frame)
		}
		if do&flow.Deliver != 0 {
			a.deliver(frame)
		}
		if do&flow.Flush != 0 {
			a.flush()
		}
		if do&flow.Ask != 0 {
			a.ask(ctx)
		}
		switch {
		case do&flow.Answer != 0:
			return a.answer(frame, e.Kind == flow.Found)
		case a.state.End != flow.None:
			return nil, a.give(ctx, do)
		case do&flow.Send != 0:
			e = a.send(ctx)
		case do&flow.Decide != 0:
			e.Kind, e.Left = a.decide(ctx), left(ctx)
		case do&flow.Permit != 0:
			e.Kind, e.OK = flow.PermitSent, a.permit(e.Turn)
		case do&flow.Append != 0:
			if a.why = a.piece(frame.GetChunk().GetData()); a.why == nil {
				return nil, nil
			}
			e.Kind = flow.Oversize
		case do&flow.Probe != 0:
			e.Kind, e.OK = flow.ProbeSent, a.probe()
		case do&flow.Demand != 0:
			a.ask(ctx)
			said := <-a.told
			a.told, frame = nil, said.frame
			e.Kind, e.Fate = flow.Found, said.fate
		case do&flow.Drain != 0:
			if end := a.drain(ctx); end != nil {
				return end, nil
			}
			e.Kind = flow.Found
		default:
			return nil, nil
		}
	}
}

// send sends the request to the instance with the fewest calls, or to any instance if the registry
// knows none, or if the instance that it was sent to has gone.
func (a *attempt) send(ctx context.Context) flow.Event {
	conn, members := a.caller.conn, &a.caller.conn.members
	if a.tried == nil {
		a.tried = a.first[:0]
	}
	gone := a.member
	if gone != nil {
		members.done(gone, flow.Absent)
		a.ran("")
		a.member = nil
	}
	if gone == nil || a.options.Only != nil {
		a.member = a.choose()
	}
	if a.member == nil && a.options.Only != nil {
		return flow.Event{Kind: flow.Nobody}
	}
	at, to := "", ""
	if a.member != nil {
		at = a.member.instance
		a.ran(at)
		a.tried = append(a.tried, at)
		to = subject.To(a.service, at, a.method)
	} else {
		to = a.caller.to(a.service, a.method)
	}
	a.server = conn.server.Load()
	if err := conn.publish(ctx, to, a.reply, a.data); err != nil {
		a.why = wire.NotSent(err)
		return flow.Event{Kind: flow.NotSent}
	}
	e := flow.Event{Kind: flow.Sent, Now: a.now(), Instance: at, Tried: len(a.tried)}
	if a.options.Harmless || at != "" && a.state.Movable() {
		e.Around = a.others()
	}
	return e
}

// choose returns the instance for this attempt, nil for none in particular.
func (a *attempt) choose() *member {
	members, from := &a.caller.conn.members, origin{a.caller.conn.Region(), a.full}
	if a.options.Only == nil {
		return members.take(a.service, from, a.tried)
	}
	if one := members.takeFrom(a.service, from, a.options.Only, a.tried); one != nil || len(a.tried) == 0 {
		return one
	}
	return members.takeFrom(a.service, from, a.options.Only, nil) // rather than none
}

// ran tells the caller which instance has the call.
func (a *attempt) ran(instance string) {
	r := a.options.Ran
	if r == nil || r.Instance == instance && r.Version != "" {
		return // keep the version of an instance that has just left
	}
	r.Instance, r.Version = instance, a.caller.conn.members.version(a.service, instance)
}

// drain reads the frames that arrived while the instance was asked how the call ended. If this process
// was late, progress waits here and must be delivered before the end. Errors in it do not matter: the
// end is known.
func (a *attempt) drain(ctx context.Context) *busv1.Frame {
	x := a.exchange
	x.mu.Lock()
	batch := x.queue
	x.queue = nil
	x.mu.Unlock()
	for _, got := range batch {
		if frame, f := a.take(ctx, got); frame != nil || f != nil {
			return frame
		}
	}
	return nil
}

// give ends an attempt that failed, and tells the instance that nobody waits for it.
func (a *attempt) give(ctx context.Context, do flow.Do) *fault.Error {
	f := a.failure(ctx)
	if do&flow.Revoke != 0 {
		a.say(a.state.By, false, "", 0)
	}
	if do&flow.Cancel != 0 {
		a.caller.cancel(a.service, a.id, string(f.Reason))
	}
	return f
}

// failure is the error for the end of the attempt.
func (a *attempt) failure(ctx context.Context) *fault.Error {
	switch a.state.End {
	case flow.GaveUp:
		return a.over(ctx)
	case flow.Unserved:
		if a.options.Only != nil {
			return fault.New(fault.Unavailable, "no instance of service %s that takes such a call is running", a.service).Because(errNoInstance)
		}
		return fault.New(fault.Unavailable, "no instance of service %s is running", a.service).Because(errNoInstance)
	case flow.Gone, flow.Away:
		return a.lost().Because(errNoInstance)
	case flow.Silent, flow.Stalled, flow.Cut, flow.Unstarted:
		return a.lost()
	case flow.Lossy, flow.Unfound:
		return fault.New(fault.PeerLost, "part of the answer of service %s was lost", a.service)
	case flow.Overrun:
		return fault.New(fault.PeerLost, "more than %d frames arrived faster than they could be read", maxQueued)
	}
	if a.why == nil { // it began without a permit, and nobody waits for it
		return a.over(ctx)
	}
	return a.why
}

func (a *attempt) lost() *fault.Error {
	if a.state.Unbegun() {
		return fault.New(fault.PeerLost, "service %s stopped answering before it began; nothing was started", a.service)
	}
	return fault.New(fault.PeerLost, "service %s stopped answering; whether the call ran is unknown", a.service)
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
