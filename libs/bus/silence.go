package bus

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// maxCatchUp is how long the bus may send this process nothing at all, while it
	// is asked whether anything is on its way.
	maxCatchUp = time.Second
	// minGrace is the least time that what came with the answer has to get to its
	// call.
	//limit:time least time for late messages after a silence
	minGrace = 100 * time.Millisecond
	// maxUnheard is how long an instance may say nothing of a call at all that another
	// one can have: two times as long as it has for its first sign of life.
	//limit:time silence of an instance from the start of a call | another instance takes the call if it can
	maxUnheard = 2 * FirstAlive
	// maxStall is how long an instance may be silent that is connected, and whose call nobody
	// else can have.
	//limit:time silence while still connected to NATS, with no other instance | `peer_lost`
	maxStall = MaxSilence + 150*time.Millisecond
	// maxSlow is the same where more than the instance is slow: time is late here too, by
	// late, or another instance was silent to the call before.
	//limit:time silence if this machine or the previous call was slow too | `peer_lost`
	maxSlow = 4 * MaxSilence
	//limit:time delay of timers here that counts as slow
	late = 50 * time.Millisecond
	// maxUnreached is the same for a call that does no harm twice, in a cluster: the NATS
	// server of the instance may hang, which the instance has left by then. Such a call is
	// made again until maxReturn after it began, by when the instance has reached another
	// server, or is not going to.
	//limit:time the same for a read in a cluster of NATS servers | the read is made again
	maxUnreached = 2 * maxUnanswered
	//limit:time time from the start of such a read in which it is made again | `peer_lost`
	maxReturn = maxUnanswered + 2*dialTime
)

// catchUp sends how long it took until everything that the bus had for this
// process when it was asked is here, or until the connection was lost and nothing is on
// its way any more. It waits until the deadline, or stop.
func (c *Conn) catchUp(deadline time.Time) (_ <-chan time.Duration, stop func()) {
	took := make(chan time.Duration, 1)
	ctx, stop := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer stop()
		begun := time.Now()
		_ = c.nc.FlushWithContext(ctx) // it fails when the connection is lost
		took <- time.Since(begun)
	}()
	return took, stop
}

// received is how many bytes have come from the bus.
func (c *Conn) received() uint64 { return c.network.read.Load() }

// pending is how many frames are here that have not been delivered to their calls.
func (c *Caller) pending() uint64 {
	n := 0
	for _, sub := range c.answers {
		if waiting, _, err := sub.Pending(); err == nil {
			n += waiting
		}
	}
	return uint64(n)
}

// wait returns the terminal frame, or why there will be none. unheard is how long the
// first frame may take.
func (a *answer) wait(ctx context.Context, x *exchange, unheard time.Duration) (*busv1.Frame, *fault.Error) {
	conn := a.caller.conn
	server := a.server
	if server == nil {
		server = conn.server.Load()
	}
	heard := time.Now()
	quietUntil := heard.Add(unheard)
	patience := a.patience()
	// checked says that nothing has come since the bus was asked whether anything
	// is on its way; caughtUp, not nil meanwhile, answers that.
	checked := false
	var caughtUp <-chan time.Duration
	// received is what had come from the bus at the last look, while that question
	// waits; due, after it, what is delivered before silence means anything.
	var received, due uint64
	// missed, not nil meanwhile, says what the instance knows of a call that was silent:
	// what it said may have been lost with a NATS server.
	var missed <-chan missing
	// alive begins once more to wait.
	alive := func() {
		heard = time.Now()
		quietUntil, checked, caughtUp, due, a.stalled = heard.Add(MaxSilence), false, nil, 0, false
	}
	asking, unasked := context.WithCancel(ctx)
	defer unasked()
	stop := func() {}
	defer func() { stop() }()
	var batch []arrival
	for {
		next := earlier(quietUntil, a.deadline)
		x.timer.Reset(time.Until(next))
		select {
		case <-x.wake:
			x.mu.Lock()
			batch, x.queue = x.queue, batch[:0]
			overflow := x.overflow
			x.mu.Unlock()
			for _, got := range batch {
				frame, err := a.take(ctx, got)
				if frame != nil || err != nil {
					return frame, err
				}
			}
			clear(batch)
			if overflow {
				return nil, fault.New(fault.PeerLost, "more than %d frames arrived faster than they could be read", maxQueued)
			}
			alive()
		case took := <-caughtUp:
			if took > late {
				patience = max(patience, maxSlow)
			}
			// What came before this has still to be handed over.
			quietUntil, caughtUp, due = time.Now().Add(max(minGrace, took)), nil, a.caller.delivered.Load()+a.caller.pending()
		case m := <-missed:
			missed = nil
			switch {
			case m.state != CallEnded && x.waits(): // what has come meanwhile says more
			case m.state == CallRunning:
				alive()
			case m.state == CallUnknown, m.state == CallForgotten && !a.repeatable(): // it may be slow
			default:
				if frame := a.rest(ctx, x); frame != nil {
					return frame, nil
				}
				return a.found(m)
			}
		case <-server.ctx.Done():
			// The request, or what came of it, may be lost with the NATS server. The instance
			// knows, once it can be asked over another one.
			server = conn.server.Load()
			stop()
			alive()
			if a.askable() {
				missed = a.ask(asking)
			}
		case <-ctx.Done():
			return nil, a.over(ctx)
		case <-x.timer.C:
			now := time.Now() // the timer says when it was due, not when this ran
			if now.Sub(next) > late {
				patience = max(patience, maxSlow)
			}
			switch {
			case !now.Before(a.deadline):
				return nil, wire.TimedOut(a.service)
			case now.Sub(next) > AliveEvery:
				// This process was stopped, not the peer: its frames may be waiting
				// in the socket.
				quietUntil = now.Add(AliveEvery)
			case !checked && conn.Connected():
				// A sign of life may be behind a large answer, or the machine busy.
				stop()
				caughtUp, stop = conn.catchUp(a.deadline)
				checked, received, quietUntil = true, conn.received(), now.Add(maxCatchUp)
				if missed == nil && a.askable() && !a.moves(a.has()) {
					missed = a.ask(asking)
				}
			case caughtUp != nil && conn.received() != received:
				// What is on its way is more than came in that time.
				received, quietUntil = conn.received(), now.Add(maxCatchUp)
			case caughtUp == nil && a.caller.delivered.Load() < due && a.caller.pending() > 0:
				quietUntil = now.Add(minGrace)
			case (!a.stalled || now.Before(heard.Add(patience))) && a.probe():
				a.stalled = true
				if missed == nil && a.askable() {
					missed = a.ask(asking)
				}
				// At least as long as NATS takes to say that it is not connected.
				quietUntil = now.Add(max(late, min(heard.Add(patience).Sub(now), AliveEvery)))
			default:
				a.stalled = a.stalled && !a.moves(a.has()) // another one may be back by now
				if a.stalled && a.mayReturn() {
					a.stalled, a.strayed = false, true
				}
				return nil, a.lost()
			}
		}
	}
}

// patience is how long the instance may be silent in all.
func (a *answer) patience() time.Duration {
	switch {
	case a.unreached():
		return maxUnreached
	case len(a.tried) > 1:
		return maxSlow
	}
	return maxStall
}

// unreached reports whether the NATS server of a silent instance may be the one that hangs,
// and the call may be made again for that.
func (a *answer) unreached() bool { return a.options.Harmless && a.caller.conn.Clustered() }

// mayReturn reports whether there is time for a silent instance to reach another NATS server.
func (a *answer) mayReturn() bool { return a.unreached() && time.Since(a.began) < maxReturn }

// rest takes what came while the instance was asked how the call ended: where this process was
// late, its progress waits here, and the answer to that question would pass it by.
// What is wrong with it does not matter: the end is known.
func (a *answer) rest(ctx context.Context, x *exchange) *busv1.Frame {
	x.mu.Lock()
	batch := x.queue
	x.queue = nil
	x.mu.Unlock()
	for _, got := range batch {
		if frame, err := a.take(ctx, got); frame != nil || err != nil {
			return frame
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lost is what became of a call whose instance gives no sign of life.
func (a *answer) lost() *fault.Error {
	if a.asks && !a.permitted {
		return fault.New(fault.PeerLost, "service %s stopped answering before it began; nothing was started", a.service).Ran(fault.No)
	}
	return fault.New(fault.PeerLost, "service %s stopped answering; whether the call ran is unknown", a.service)
}

// others are the instances that can have the call besides one, and those it went to.
func (a *answer) others(instance string) []string {
	return a.caller.conn.members.others(a.service, a.options.Only, append(a.tried, instance))
}

// repeatable reports whether the call can be made again, whatever becomes of this attempt.
func (a *answer) repeatable() bool { return a.options.Harmless || a.asks && !a.permitted }

// moves reports whether the call goes to another instance when this one is silent. The last
// attempt does not: its instance has the time of one that may be slow.
func (a *answer) moves(instance string) bool {
	return !a.last && a.repeatable() && len(a.others(instance)) > 0
}

// unheard is how long an instance may take for its first frame. A call that another one
// can have goes there long before it is certain that this one hangs: without a permit it
// cannot run at both.
func (a *answer) unheard(instance string) time.Duration {
	if a.moves(instance) {
		return maxUnheard
	}
	return MaxSilence
}

// probe asks NATS whether the instance that has the call is connected yet, or where
// nobody knows which one that is, any of its service. A process that has ended is not,
// which NATS says at once; one that is, is slow, or stopped. It reports false where that
// is not worth waiting for: the call can be made again at another one.
func (a *answer) probe() bool {
	conn, instance := a.caller.conn, a.has()
	if a.moves(instance) || !conn.Connected() {
		return false
	}
	// A word on no call: nothing but whether it arrives matters.
	at := subject.Permit(a.service, instance)
	switch {
	case a.caller.service != "":
		at = subject.CancelFrom(a.caller.service)
	case !subject.Token(instance):
		at = subject.Cancel(a.service)
	}
	a.probed = true
	return conn.nc.PublishRequest(at, a.reply, nil) == nil
}
