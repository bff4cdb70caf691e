package flow

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// maxAttempts is how many instances are tried, one after the other, for a call that ran at
	// none. Attempts of a call that is lost although an instance may live do not count until
	// MaxReturn: its NATS server hangs, or the instance is moving to another one.
	//limit:call instances that are tried for a call that did not begin | `unavailable`, `peer_lost`
	maxAttempts = 3
	// attemptPause is the pause before each attempt but the first.
	attemptPause = 20 * time.Millisecond
	// reconnectPause is the pause before the second attempt if NATS knew no instance but the
	// registry does: all instances may be moving from a stopping server to another one.
	reconnectPause = 150 * time.Millisecond
)

// End is how an attempt ended.
type End uint8

// The ends.
const (
	// None: it goes on.
	None End = iota
	// Answered: the instance said how the call ended, with a result or an error.
	Answered
	// Refused: the caller did not permit it.
	Refused
	// Overruled: the caller did not permit it, but it had begun.
	Overruled
	// GaveUp: the caller waits no longer.
	GaveUp
	// Unsent: the bus is not reachable.
	Unsent
	// Unserved: no instance takes the call.
	Unserved
	// Gone: the instance is not connected to NATS. Away: so it seems, but it may be about to connect to
	// another NATS server.
	Gone
	Away
	// Silent: no sign of life came from the instance.
	Silent
	// Stalled: the same, of an instance that is connected. Cut: the same, but its NATS server may hang.
	Stalled
	Cut
	// Unstarted: the instance says that it never began the call.
	Unstarted
	// Unfound: part of the answer is missing, and the instance does not have it any more.
	Unfound
	// Lossy: part of the answer is missing.
	Lossy
	// Broken: something came that is not of the protocol.
	Broken
	// Overrun: more frames came than can be kept.
	Overrun
	// TooLarge: the result does not fit.
	TooLarge
)

// Word is what the end of an attempt says about the instance.
type Word uint8

// The words.
const (
	// Nothing.
	Nothing Word = iota
	// Lives: it sent a part of the answer.
	Lives
	// Quiet: it gave no sign of life.
	Quiet
	// Absent: it is not connected to NATS.
	Absent
)

// rules are what follows from an end.
var rules = [...]struct {
	instance Word
	// cancel: the instance may run the call, and must learn that nobody waits.
	cancel bool
	// may: the instance may live, at a NATS server that cannot be reached, and the call may go there
	// again.
	may bool
	// never: the call is not made again.
	never bool
}{
	Answered:  {instance: Lives},
	Refused:   {instance: Lives, never: true},
	Overruled: {instance: Lives, cancel: true, never: true},
	GaveUp:    {instance: Lives, cancel: true},
	Unsent:    {cancel: true},
	Unserved:  {instance: Absent},
	Gone:      {instance: Absent},
	Away:      {instance: Absent, may: true},
	Silent:    {instance: Quiet, cancel: true},
	Stalled:   {instance: Quiet, cancel: true}, // it would get the call again: see again
	Cut:       {instance: Quiet, cancel: true, may: true},
	Unstarted: {instance: Lives, cancel: true, may: true},
	Unfound:   {instance: Lives},
	Lossy:     {instance: Quiet, cancel: true},
	Broken:    {instance: Quiet, cancel: true},
	Overrun:   {instance: Quiet, cancel: true},
	TooLarge:  {instance: Lives, cancel: true},
}

// end ends the attempt. An instance that was only silent, and may have begun a call with an
// idempotency key, is not cancelled: it keeps the answer for a repetition with the same key.
func (s *State) end(e End) Do {
	s.End = e
	switch rule := rules[e]; {
	case e == Answered:
		return Answer
	case !rule.cancel, s.Attempt == 0: // it only reads about a call
		return 0
	case rule.instance == Quiet && s.Keyed && s.Guard == Asked && s.permitted():
		return Revoke
	}
	return Cancel
}

// Instance is what the attempt says about its instance: lost, or alive.
func (s *State) Instance() Word {
	word := Absent // the request went on to the next one
	if s.End != None {
		word = rules[s.End].instance
	}
	if word == Lives && s.Seq == 0 {
		return Nothing
	}
	return word
}

// Absent reports whether the attempt ended because no instance was there.
func (s *State) Absent() bool { return s.End != None && rules[s.End].instance == Absent }

// Vouched reports whether the instance began the call with this caller's permit, and said how it ended.
func (s *State) Vouched() bool {
	return s.End == Answered && s.Guard == Asked && s.permitted()
}

// failed decides, of an attempt that failed, whether the call ran and whether it is made again.
func (s *State) failed(e *Event) Do {
	executed := s.executed(e.Executed)
	again := s.again(e, executed)
	s.Executed = executed
	if s.Doubt && !s.Vouched() && executed == fault.No {
		s.Executed = fault.Unknown // this attempt did not run; one before may have
	}
	may := rules[s.End].may
	if may && e.Now < MaxReturn {
		s.Most++
	}
	s.Pause = attemptPause
	if e.Reason == fault.Unavailable || s.End == Away {
		s.Pause = reconnectPause
	}
	if !again || s.Attempt == s.Most || s.Deadline-e.Now < MinRemaining+s.Pause {
		return 0
	}
	do := Again
	if may && s.End != Away { // it lives
		do |= Afresh
	}
	*s = State{
		Terms: s.Terms, Attempt: s.Attempt, Most: s.Most, Executed: s.Executed, Pause: s.Pause,
		Doubt: s.Doubt || executed != fault.No, Lost: s.Lost || e.Reason == fault.PeerLost,
	}
	return do
}

// executed is whether the call ran in this attempt, which said so itself.
func (s *State) executed(said fault.Executed) fault.Executed {
	switch {
	case s.End == Overruled:
		return fault.Unknown
	case s.End != Refused && s.Unbegun(): // fault:executed-no
		return fault.No
	}
	return said
}

// again reports whether a failed call may be made again without asking its client: because it has not
// begun and another instance may take it, or because a second run does no harm.
func (s *State) again(e *Event, executed fault.Executed) bool {
	if rules[s.End].never {
		return false
	}
	unrun := executed == fault.No && s.Phase != Permitted && s.Phase != Running
	switch e.Reason {
	case fault.Overloaded:
		return unrun && s.Attempt == 1 && (s.Guard == Asked || s.Harmless)
	case fault.DeadlineExceeded, fault.Cancelled: // of the instance; the caller's own leaves no time
		return unrun
	case fault.Unavailable: // NATS knew no instance, and the registry does
		return (s.Attempt == 1 || s.Lost) && s.Absent() && !s.Only && e.Known
	case fault.PeerLost:
		// A stalled instance would get it again.
		return s.End != Stalled && (unrun || s.Harmless) // fault:made-again
	}
	return false
}
