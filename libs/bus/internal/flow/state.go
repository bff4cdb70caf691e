// Package flow decides what becomes of a call. A call is a State; Step takes an Event and returns the
// next State and what the caller has to do. There is no I/O, no clock and no lock here: the loop
// around it (libs/bus/attempt.go) receives a frame, an answer or the end of a timer, calls Step, and
// acts. Three questions are decided in this package and nowhere else: may the call be made again
// (again.go), did it run (again.go), and is its instance lost (silence.go).
// docs/explanation/a-call.md has the states with a drawing; start reading at Step.
package flow

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Guard is what keeps an instance from beginning a call that its caller may give up.
type Guard uint8

// The guards.
const (
	// Free: the call has no effect, so its instance begins when it can.
	Free Guard = iota
	// Asked: the call may have an effect. An instance asks before it begins (Ready), and without a
	// permit nothing runs.
	Asked
	// Ahead: the call may have an effect, and its service cannot ask: it is permitted before it is
	// sent.
	Ahead
)

// Terms are what is known about a call before it is made.
type Terms struct {
	// Harmless says that a second run does no harm.
	Harmless bool
	// Keyed says that the call has an idempotency key: repeating it returns its answer.
	Keyed bool
	// Only says that not every instance may take the call.
	Only bool
	// Edge says that an edge makes the call: it may ask an instance what became of it.
	Edge bool
	// Deadline is the time at which the caller stops waiting, since the call was made.
	Deadline time.Duration
}

// Phase is how far an attempt has come, as far as its caller knows.
type Phase uint8

// The phases.
const (
	// Open: the call needs no permit. It may run once an instance has it.
	Open Phase = iota
	// Offered: no permit was given. Nothing runs.
	Offered
	// Deciding: the caller is being asked whether the call may begin. Nothing runs.
	Deciding
	// Permitted: a permit may have arrived. The call may run.
	Permitted
	// Running: a part of the answer has arrived.
	Running
	// Overtaken: an instance began without a permit, and the caller is being asked all the same.
	Overtaken
	// Leaving: the caller leaves the call to the followers of its stream, which cannot permit it, and
	// is asked whether it may begin.
	Leaving
)

// Watch is how certain it is that the instance is silent.
type Watch uint8

// The degrees of certainty.
const (
	// Listening: a frame has arrived, or may still be expected.
	Listening Watch = iota
	// Checking: none has arrived in time. The connection is flushed, because frames may be on their
	// way to this process.
	Checking
	// Probed: nothing was on its way. NATS was asked whether the instance is connected, and reports at
	// once if it is not: it is slow, or stopped.
	Probed
)

// State is what a caller knows about a call, and about its attempt at one instance. The zero State
// with its Terms is a call that was not tried yet.
type State struct {
	Terms
	// Attempt is the number of this attempt, Most the number of the last one.
	Attempt, Most int
	// Doubt is set if an earlier attempt may have run, Lost if the instance of one was lost.
	Doubt, Lost bool

	Guard Guard
	Phase Phase
	// End is how the attempt ended, None while it goes on.
	End End
	// At is the instance that the request was sent to, empty for any. By is the one that is known to
	// have it: it asked for a permit or sent a part of the answer.
	At, By string
	// Permits counts the permits that may have arrived.
	Permits int
	// Seq is the number of the last frame of the answer; Torn is set if frames before it are missing.
	Seq  uint32
	Torn bool

	Watch Watch
	// Heard is when the instance last gave a sign of life, and Until when the next step is due if it
	// gives none. Patience is how long a connected instance may be silent.
	Heard, Until, Patience time.Duration
	// Flushing is set while the flush of the connection has not ended. Received is the number of bytes
	// that had arrived at the last look; Due is how many frames must have been delivered to their calls
	// before silence counts.
	Flushing      bool
	Received, Due uint64
	// Asking is set while the instance is being asked what became of the call. Probing is set once NATS
	// was asked whether the instance is connected.
	// Settling is set once the instance's word on the call is what ends it. Outdated is set if a permit
	// was sent since it was asked for that word.
	Asking, Probing, Settling, Outdated bool

	// Executed says, of an attempt that failed, whether the call ran, and Pause how long to wait before
	// the next attempt.
	Executed fault.Executed
	Pause    time.Duration
}

// Fate is what an instance knows about a call.
type Fate uint8

// The fates.
const (
	// NotKnown: no valid answer came.
	NotKnown Fate = iota
	// Forgotten: the call does not run there; the instance no longer knows whether it did.
	Forgotten
	// WithInstance: the instance is gone, and its memory with it.
	WithInstance
	// StillRuns: it waits for its permit, or runs.
	StillRuns
	// NeverBegun: it did not begin there, and will not.
	NeverBegun
	// HasEnded: with an answer.
	HasEnded
)

// Kind is what happened.
type Kind uint8

// The events. Those in the second group are results of what Step had the caller do.
const (
	// Offer begins an attempt, with a Guard.
	Offer Kind = iota
	// Frame: a frame arrived (Instance, Seq, Skipped, Part, MayLeave).
	Frame
	// Ready: an Instance asks whether it may begin.
	Ready
	// Unheard: NATS says that nobody received a message: the request, a permit or the probe.
	Unheard
	// Heard: all frames that had arrived are read.
	Heard
	// Timer: the time of Next has come (Around).
	Timer
	// ServerLost: the connection to the NATS server was lost (Around).
	ServerLost
	// Over: the caller's time is over, or it does not want the answer any more. Left says that it leaves
	// the call to others.
	Over
	// Garbled: something arrived that is not a frame.
	Garbled
	// Flooded: more frames arrived than are kept.
	Flooded
	// Oversize: a piece of the result does not fit.
	Oversize

	// Sent: the request was published to Instance, or to any if that is empty. Tried is how many were
	// tried (Around).
	Sent
	// NotSent: it could not be published.
	NotSent
	// Nobody: no instance is left that may take the call.
	Nobody
	// Agreed, Denied: what the caller decided.
	Agreed
	Denied
	// PermitSent: the permit was published, or not (OK).
	PermitSent
	// ProbeSent: the probe was published, or not (OK, Around).
	ProbeSent
	// Flushed: everything that the bus had for this process has arrived (Took, Due).
	Flushed
	// Told: the instance said what became of the call (Fate). Waits says that frames have arrived in
	// the meantime.
	Told
	// Found: the same, when all frames that had arrived are read.
	Found
	// Failed: the attempt ended with an error of this Reason, which says Executed. Known says that the
	// registry knows an instance of the service.
	Failed
)

// Part is the kind of a frame.
type Part uint8

// The parts of an answer.
const (
	// Unnumbered: a sign of life that is not part of the answer.
	Unnumbered Part = iota
	// Alive: a sign of life.
	Alive
	// Note: progress, or a line of a log.
	Note
	// Disconnect: the service asks to close the client's connection.
	Disconnect
	// Chunk: a piece of the result.
	Chunk
	// Result: the result, or its last piece.
	Result
	// Other: another end, but an error.
	Other
	// Failure: an error.
	Failure
)

// Around is what the caller sees of the bus. It need be set only for events that say so.
type Around struct {
	// Others are the instances that could take the call and were not tried.
	Others []string
	// Clustered says that there are several NATS servers, Connected that this process has one.
	Clustered, Connected bool
	// Received are the bytes that have arrived from the bus; Delivered counts the frames handed to their
	// calls, and Pending those that wait for it.
	Received, Delivered, Pending uint64
}

// Event is something that happened at a time, counted since the call was made. Other fields are set
// for the kinds that name them.
type Event struct {
	Kind Kind
	Now  time.Duration

	Guard        Guard
	Instance     string
	Turn         uint32 // for the caller: the number of the question that a permit answers
	Seq, Skipped uint32
	Part         Part
	MayLeave     bool
	OK, Left     bool
	Tried        int
	Fate         Fate
	Waits        bool
	Took         time.Duration
	Due          uint64
	Around       Around
	Reason       fault.Reason
	Executed     fault.Executed
	Known        bool
}

// Do is a set of actions.
type Do uint32

// The actions.
const (
	// Send: send the request to an instance, and say Sent, NotSent or Nobody.
	Send Do = 1 << iota
	// Decide: ask the caller whether the call may begin at By, and say Agreed, Denied or Over.
	Decide
	// Permit: tell By that it may begin, and say PermitSent.
	Permit
	// Refuse: tell the Instance of the event that it must not begin.
	Refuse
	// Count: the frame is the next one of the answer.
	Count
	// Deliver: give the frame to whoever watches the call.
	Deliver
	// Append: keep a piece of the result, or say Oversize.
	Append
	// Answer: the frame, or the answer that the instance remembers, ends the call.
	Answer
	// Flush: flush the connection, and say Flushed.
	Flush
	// Probe: ask NATS whether the instance is connected, and say ProbeSent.
	Probe
	// Ask: ask the instance what became of the call, and say Told. Demand: do so, wait, and say Found.
	Ask
	Demand
	// Drain: read the frames that have arrived, whatever they end with, and say Found.
	Drain
	// Revoke: tell By that it must not begin any more. Cancel: tell it that nobody waits.
	Revoke
	Cancel
	// Again: make another attempt after a Pause. Afresh: at any instance, even one that was tried.
	Again
	Afresh
)
