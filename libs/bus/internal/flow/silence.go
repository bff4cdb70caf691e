package flow

import "time"

// Timing of a call.
const (
	// HopShave is taken off the deadline at each hop, so that the side that knows most about a timeout
	// answers first.
	HopShave = 20 * time.Millisecond
	// MinRemaining is the least time worth starting a call with.
	MinRemaining = 100 * time.Millisecond
	// FirstAlive is how long after receipt a service that has sent no frame sends its first heartbeat.
	// AliveEvery is the interval of heartbeats after that.
	FirstAlive = 200 * time.Millisecond
	AliveEvery = 250 * time.Millisecond
	// MaxSilence is how long a caller waits for any frame (two and a half heartbeats) before it
	// checks whether one is still on its way.
	//limit:silence silence of an instance that runs a call | `peer_lost`, unless messages from it are on the way
	MaxSilence = 750 * time.Millisecond
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
	// maxCatchUp is how long the bus may send this process nothing while a flush is pending that
	// tells whether anything is in transit.
	maxCatchUp = time.Second
	// minGrace is the least time for frames that arrived before the end of the flush to reach their
	// calls.
	minGrace = 100 * time.Millisecond

	// ServerSilence is how long a NATS server may send nothing, not even answers to pings, before a
	// connection leaves it for another one. DialTime limits connecting to that one, and then the wait
	// for its greeting.
	ServerSilence = 750 * time.Millisecond
	DialTime      = 2 * time.Second
	// maxUnreached is how long a connected instance may be silent on a harmless call in a cluster: the
	// instance's NATS server may hang, and after this time the instance has left it. Such a call is
	// repeated until MaxReturn after it began. By then the instance has reached another server, or never
	// will.
	//limit:silence silence of an instance with a read-only call, in a cluster of NATS servers | the call is repeated
	maxUnreached = 2 * ServerSilence
	MaxReturn    = ServerSilence + 2*DialTime
)

// Next is when the next Timer is due.
func (s *State) Next() time.Duration { return min(s.Until, s.Deadline) }

// alive starts the wait for silence again.
func (s *State) alive(e *Event) {
	s.Heard, s.Until = e.Now, e.Now+MaxSilence
	s.Watch, s.Flushing, s.Due = Listening, false, 0
}

// timer makes one step towards the certainty that the instance is silent, and not this process or the
// bus late: it has the connection flushed, waits while bytes still arrive, waits until received frames
// are delivered, and has NATS asked whether the instance is connected. Only after all of them the
// instance is lost. Any frame starts again from the first step.
func (s *State) timer(e *Event) Do {
	behind := e.Now - s.Next()
	if behind > late {
		s.Patience = max(s.Patience, maxSlow)
	}
	switch {
	case e.Now >= s.Deadline:
		return s.end(GaveUp)
	case behind > AliveEvery:
		// This process was stopped, not the peer: its frames may be waiting in the socket.
		s.Until = e.Now + AliveEvery
	case s.Watch == Listening && e.Around.Connected:
		// A heartbeat may be queued behind a large answer, or the machine is busy.
		s.Watch, s.Flushing, s.Received, s.Until = Checking, true, e.Around.Received, e.Now+maxCatchUp
		return Flush | s.ask(e, !s.moves(e))
	case s.Flushing && e.Around.Received != s.Received:
		// Bytes are still arriving.
		s.Received, s.Until = e.Around.Received, e.Now+maxCatchUp
	case !s.Flushing && e.Around.Delivered < s.Due && e.Around.Pending > 0:
		s.Until = e.Now + minGrace
	case (s.Watch != Probed || e.Now < s.Heard+s.Patience) && !s.moves(e) && e.Around.Connected:
		s.Probing = true
		return Probe
	default:
		return s.lost(e)
	}
	return 0
}

// flushed waits for the frames that have arrived to be delivered.
func (s *State) flushed(e *Event) {
	if e.Took > late {
		s.Patience = max(s.Patience, maxSlow)
	}
	s.Flushing, s.Due, s.Until = false, e.Due, e.Now+max(minGrace, e.Took)
}

// probeSent waits at least until NATS could report that the instance is not connected.
func (s *State) probeSent(e *Event) Do {
	if !e.OK {
		return s.lost(e)
	}
	s.Watch = Probed
	s.Until = e.Now + max(late, min(s.Heard+s.Patience-e.Now, AliveEvery))
	return s.ask(e, true)
}

// serverLost asks the instance what became of the call, because the request or its answer may be lost
// with the NATS server. The instance can say so once it is reached over another one.
func (s *State) serverLost(e *Event) Do {
	s.alive(e)
	s.Asking = false
	return s.ask(e, true)
}

func (s *State) ask(e *Event, wanted bool) Do {
	if s.Asking || !wanted || !s.askable(e) {
		return 0
	}
	s.Asking, s.Outdated = true, false
	return Ask
}

// lost gives up an instance that gives no sign of life.
func (s *State) lost(e *Event) Do {
	switch stalled := s.Watch == Probed && !s.moves(e); {
	case stalled && s.cutOff(e) && e.Now < MaxReturn:
		return s.end(Cut)
	case stalled:
		return s.end(Stalled)
	}
	return s.end(Silent)
}

// told looks whether the instance's word on the call decides it.
func (s *State) told(e *Event) Do {
	s.Asking = false
	switch {
	case e.Fate != HasEnded && e.Waits: // the frames that have arrived say more
	case e.Fate == NeverBegun && s.Outdated: // it may have begun since
	case e.Fate == StillRuns:
		s.alive(e)
	case e.Fate == NotKnown, e.Fate == Forgotten && !s.repeatable(): // it may be slow
	default:
		s.Settling = true
		return Drain
	}
	return 0
}

// found ends a call as its instance says, whatever the frames said that were read since.
func (s *State) found(fate Fate) Do {
	if !s.Settling {
		return 0
	}
	running := s.Phase == Running && s.Guard == Asked
	switch {
	case fate == HasEnded:
		return s.end(Answered)
	case fate == NeverBegun && s.Outdated: // it may have begun since
		s.Settling, s.End = false, None
		return 0
	case fate == NeverBegun && !running, fate == Forgotten && s.repeatable():
		// It never will, so the call may be made again.
		if fate == NeverBegun && s.Guard == Asked {
			s.Phase = Offered
		}
		return s.end(Unstarted)
	case fate == WithInstance:
		return s.end(Gone)
	}
	return s.end(Unfound)
}
