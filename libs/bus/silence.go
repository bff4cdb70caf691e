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
	// maxCatchUp is how long the bus may send this process nothing while a flush is pending that
	// tells whether anything is in transit.
	maxCatchUp = time.Second
	// minGrace is the least time for frames that arrived before the end of the flush to reach their
	// calls.
	minGrace = 100 * time.Millisecond
	// maxUnheard is how long an instance may send nothing about a call that another instance can
	// take: twice the time to its first heartbeat.
	//limit:silence silence of an instance after a call was sent to it | another instance takes the call if it can
	maxUnheard = 2 * FirstAlive
	// maxStall is how long a connected instance may be silent if no other instance can take its
	// call.
	//limit:silence silence of a connected instance if no other one can take its call | `peer_lost`
	maxStall = MaxSilence + 150*time.Millisecond
	// maxSlow is the same if more than this instance seems slow: a timer here was late by more than
	// late, or another instance was silent before.
	//limit:silence silence of a connected instance if the caller or another instance is slow, too | `peer_lost`
	maxSlow = 4 * MaxSilence
	late    = 50 * time.Millisecond
	// maxUnreached is the same for a harmless call in a cluster: the instance's NATS server may
	// hang, and after this time the instance has left it. Such a call is repeated until maxReturn
	// after it began. By then the instance has reached another server, or never will.
	//limit:silence silence of an instance with a read-only call, in a cluster of NATS servers | the call is repeated
	maxUnreached = 2 * maxUnanswered
	maxReturn    = maxUnanswered + 2*dialTime
)

// catchUp flushes the connection and sends how long that took. After it, everything that the bus
// had for this process has arrived, or the connection is lost and nothing is in transit. It waits
// until the deadline, or until stop is called.
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

// wait returns the terminal frame, or the reason why none will come. unheard is how long the first
// frame may take. It is one loop over these events: frames arrive; the timer ends (see below); the
// flush of catchUp ends; the instance answers what it knows about the call (ask); the connection
// leaves its NATS server; ctx ends. The timer ends first for silence, and then each step makes more
// certain that the instance is lost, not this process or the bus late: flush the connection, wait
// while bytes still arrive, wait until received frames are delivered, ask NATS whether the instance
// is connected (probe). Only after all of them the call is lost. Any frame starts again from the
// first step.
func (a *attempt) wait(ctx context.Context, x *exchange, unheard time.Duration) (*busv1.Frame, *fault.Error) {
	conn := a.caller.conn
	server := a.server
	if server == nil {
		server = conn.server.Load()
	}
	heard := time.Now()
	quietUntil := heard.Add(unheard)
	patience := a.patience()
	// checked is set if nothing has arrived since the flush began. caughtUp delivers the end of the
	// flush; it is nil if none is pending.
	checked := false
	var caughtUp <-chan time.Duration
	// received is the byte count at the last look while the flush is pending. due is the number of
	// frames that must be delivered after the flush before silence counts.
	var received, due uint64
	// missed delivers the instance's answer about the call, because its frames may have been lost
	// with a NATS server. It is nil if nothing was asked.
	var missed <-chan missing
	// alive starts the wait for silence again.
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
			// Frames that arrived before this must still be delivered.
			quietUntil, caughtUp, due = time.Now().Add(max(minGrace, took)), nil, a.caller.delivered.Load()+a.caller.pending()
		case m := <-missed:
			missed = nil
			switch {
			case m.state != CallEnded && x.waits(): // frames have arrived in the meantime and say more
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
			// The request or its answer may be lost with the NATS server. The instance can report
			// that once it is reached over another server.
			server = conn.server.Load()
			stop()
			alive()
			if a.askable() {
				missed = a.ask(asking)
			}
		case <-ctx.Done():
			return nil, a.over(ctx)
		case <-x.timer.C:
			now := time.Now() // the timer has the time it was due, not the time it was handled
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
				// A heartbeat may be queued behind a large answer, or the machine is busy.
				stop()
				caughtUp, stop = conn.catchUp(a.deadline)
				checked, received, quietUntil = true, conn.received(), now.Add(maxCatchUp)
				if missed == nil && a.askable() && !a.moves(a.holder()) {
					missed = a.ask(asking)
				}
			case caughtUp != nil && conn.received() != received:
				// Bytes are still arriving.
				received, quietUntil = conn.received(), now.Add(maxCatchUp)
			case caughtUp == nil && a.caller.delivered.Load() < due && a.caller.pending() > 0:
				quietUntil = now.Add(minGrace)
			case (!a.stalled || now.Before(heard.Add(patience))) && a.probe():
				a.stalled = true
				if missed == nil && a.askable() {
					missed = a.ask(asking)
				}
				// Wait at least until NATS could report that it is not connected.
				quietUntil = now.Add(max(late, min(heard.Add(patience).Sub(now), AliveEvery)))
			default:
				a.stalled = a.stalled && !a.moves(a.holder()) // another instance may be back
				if a.stalled && a.mayReturn() {
					a.stalled, a.strayed = false, true
				}
				return nil, a.lost()
			}
		}
	}
}

// patience is how long the instance may be silent in total.
func (a *attempt) patience() time.Duration {
	switch {
	case a.unreached():
		return maxUnreached
	case len(a.tried) > 1:
		return maxSlow
	}
	return maxStall
}

// unreached reports whether a silent instance may be cut off by a hanging NATS server, and the call
// may be repeated for that reason.
func (a *attempt) unreached() bool { return a.options.Harmless && a.caller.conn.Clustered() }

// mayReturn reports whether there is time for a silent instance to reach another NATS server.
func (a *attempt) mayReturn() bool { return a.unreached() && time.Since(a.began) < maxReturn }

// rest reads the frames that arrived while the instance was asked how the call ended. If this
// process was late, progress waits here and must be delivered before the end. Errors in it do not
// matter: the end is known.
func (a *attempt) rest(ctx context.Context, x *exchange) *busv1.Frame {
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

// lost returns the error of a call whose instance sends no heartbeat.
func (a *attempt) lost() *fault.Error {
	if a.asks && !a.permitted {
		return fault.New(fault.PeerLost, "service %s stopped answering before it began; nothing was started", a.service).Ran(fault.No)
	}
	return fault.New(fault.PeerLost, "service %s stopped answering; whether the call ran is unknown", a.service)
}

// others returns the instances that can take the call, without the given one and those already
// tried.
func (a *attempt) others(instance string) []string {
	return a.caller.conn.members.others(a.service, a.options.Only, append(a.tried, instance))
}

// repeatable reports whether the call can be made again whatever this attempt has done.
func (a *attempt) repeatable() bool { return a.options.Harmless || a.asks && !a.permitted }

// moves reports whether the call goes to another instance if this one is silent. The last attempt
// does not move: its instance gets the time of a slow one.
func (a *attempt) moves(instance string) bool {
	return !a.last && a.repeatable() && len(a.others(instance)) > 0
}

// unheard is how long an instance may take for its first frame. If another instance can take the
// call, it moves there long before it is certain that this one hangs. Without a permit it cannot
// run at both.
func (a *attempt) unheard(instance string) time.Duration {
	if a.moves(instance) {
		return maxUnheard
	}
	return MaxSilence
}

// probe asks NATS whether the instance that has the call is still connected, or any instance of the
// service if it is not known which one has it. NATS reports at once if the process has ended. If it
// is connected, it is slow or stopped. probe returns false if waiting is not worth it, because
// another instance can take the call.
func (a *attempt) probe() bool {
	conn, instance := a.caller.conn, a.holder()
	if a.moves(instance) || !conn.Connected() {
		return false
	}
	// The message belongs to no call; only its delivery matters.
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
