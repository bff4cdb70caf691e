package flow

import (
	"slices"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// happened is an event, and what the caller has to do then.
type happened struct {
	Event
	do Do
}

const ms = time.Millisecond

func sent(instance string, others ...string) happened {
	return happened{Event{Kind: Sent, Instance: instance, Tried: 1, Around: Around{Others: others}}, 0}
}
func ready(instance string, do Do) happened {
	return happened{Event{Kind: Ready, Instance: instance}, do}
}
func part(seq uint32, p Part, do Do) happened {
	return happened{Event{Kind: Frame, Instance: "a", Seq: seq, Part: p}, do}
}
func said(kind Kind, do Do) happened { return happened{Event{Kind: kind}, do} }
func done(kind Kind, ok bool, do Do) happened {
	return happened{Event{Kind: kind, OK: ok}, do}
}
func told(kind Kind, f Fate, do Do) happened { return happened{Event{Kind: kind, Fate: f}, do} }

// timer is the end of the timer, with a connection and no other instances.
func timer(at time.Duration, do Do) happened {
	return happened{Event{Kind: Timer, Now: at, Around: Around{Connected: true}}, do}
}

// permits are the events until the call is permitted at "a".
var permits = []happened{sent("a"), ready("a", Decide), said(Agreed, Permit), done(PermitSent, true, 0)}

// probes are the events of a silence, until NATS was asked about the instance.
var probes = []happened{sent("a"), timer(750*ms, Flush|Ask), {Event{Kind: Flushed, Now: 751 * ms}, 0}, timer(851*ms, Probe), {Event{Kind: ProbeSent, OK: true, Now: 851 * ms}, 0}}

func after(begin []happened, more ...happened) []happened { return slices.Concat(begin, more) }

var read, keyed = Terms{Edge: true, Harmless: true}, Terms{Edge: true, Keyed: true}

func TestStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		guard Guard
		terms Terms
		all   []happened
		phase Phase
		end   End
	}{
		{"a permit", Asked, Terms{}, permits, Permitted, None},
		{"a permit and a result", Asked, Terms{}, after(permits, part(1, Result, Count|Answer)), Running, Answered},
		{"a permit that was not sent", Asked, Terms{}, []happened{sent("a"), ready("a", Decide), said(Agreed, Permit), done(PermitSent, false, 0)}, Offered, None},
		{"a permit that is not given", Asked, Terms{}, []happened{sent("a"), ready("a", Decide), {Event{Kind: Denied, Instance: "a"}, Refuse}}, Offered, Refused},
		{"a permit asked for again", Asked, Terms{}, after(permits, ready("a", Permit)), Permitted, None},
		{"another instance asks", Asked, Terms{}, after(permits, ready("b", Refuse), ready("", 0)), Permitted, None},
		{"no name", Asked, Terms{}, []happened{sent("a"), ready("", 0)}, Offered, None},
		{"nothing to permit", Free, Terms{}, []happened{sent("a"), ready("a", 0), part(1, Note, Count|Deliver), ready("a", 0)}, Running, None},
		{"the time is over while it asks", Asked, Terms{}, []happened{sent("a"), ready("a", Decide), {Event{Kind: Over, Instance: "a"}, Refuse}}, Offered, GaveUp},
		{"it asks, and is gone", Asked, Terms{}, after(permits, said(Unheard, 0)), Offered, Gone},
		{"one permit of two is not heard", Asked, Terms{}, after(permits, ready("a", Permit), done(PermitSent, true, 0), said(Unheard, 0)), Permitted, None},
		{"a service that cannot ask", Ahead, Terms{}, []happened{said(Agreed, Send), sent("a"), part(1, Note, Count|Deliver)}, Running, None},
		{"one that cannot ask, and does", Ahead, Terms{}, []happened{said(Agreed, Send), sent(""), ready("b", Permit), ready("c", Refuse)}, Permitted, None},
		{"one that cannot ask is not permitted", Ahead, Terms{}, []happened{said(Denied, 0)}, Offered, Refused},
		{"one that cannot ask, and no time", Ahead, Terms{}, []happened{said(Over, 0)}, Offered, GaveUp},
		{"it did not ask", Asked, Terms{}, []happened{sent("a"), part(1, Chunk, Count|Decide), {Event{Kind: Agreed, Part: Chunk}, Append}}, Running, None},
		{"it did not ask and may not", Asked, keyed, []happened{sent("a"), part(1, Result, Count|Decide), said(Denied, Cancel)}, Running, Overruled},
		{"it did not ask and is late", Asked, Terms{}, []happened{sent("a"), part(1, Note, Count|Decide), said(Over, Cancel)}, Running, Overruled},
		{"an error before it asked", Asked, Terms{}, []happened{sent("a"), part(1, Failure, Count|Answer)}, Offered, Answered},

		{"left before anybody asked", Asked, Terms{}, []happened{sent("a"), {Event{Kind: Over, Left: true}, 0}}, Offered, GaveUp},
		{"left while it waits", Asked, Terms{}, []happened{sent("a"), part(1, Alive, Count|Deliver), {Event{Kind: Over, Left: true}, Decide}, said(Agreed, Permit), done(PermitSent, true, 0)}, Permitted, GaveUp},
		{"left while it asks", Asked, Terms{}, []happened{sent("a"), ready("a", Decide), {Event{Kind: Over, Left: true}, Decide}, said(Denied, 0)}, Offered, GaveUp},
		{"left too late", Asked, Terms{}, []happened{sent("a"), ready("a", Decide), {Event{Kind: Over, Left: true}, Decide}, said(Over, 0)}, Offered, GaveUp},
		{"left while it runs", Asked, Terms{}, after(permits, happened{Event{Kind: Over, Left: true}, 0}), Permitted, GaveUp},
		{"cancelled", Free, Terms{}, []happened{sent("a"), said(Over, Cancel)}, Open, GaveUp},

		{"frames", Free, Terms{}, []happened{sent("a"), part(1, Alive, Count|Deliver), part(0, Unnumbered, 0), part(2, Disconnect, Count|Deliver), part(2, Note, 0), part(3, Other, Count|Answer)}, Running, Answered},
		{"a client that leaves", Free, Terms{}, []happened{sent("a"), {Event{Kind: Frame, Seq: 1, Part: Disconnect, MayLeave: true}, Count | Deliver | Answer}}, Running, Answered},
		{"a gap", Free, read, []happened{sent("a"), part(2, Note, Cancel)}, Open, Lossy},
		{"frames that this process dropped", Free, read, []happened{sent("a"), {Event{Kind: Frame, Seq: 3, Skipped: 2, Part: Note}, Count | Deliver}}, Running, None},
		{"a gap with a permit", Asked, keyed, after(permits, part(2, Note, Count|Deliver), part(3, Result, Count|Demand), told(Found, HasEnded, Answer)), Running, Answered},
		{"a gap that nobody can fill", Asked, keyed, after(permits, part(2, Result, Count|Demand), told(Found, NotKnown, 0)), Running, Unfound},
		{"nothing follows the end", Free, read, []happened{sent("a"), part(1, Result, Count|Answer), part(2, Result, 0), told(Found, NotKnown, 0), said(Over, 0)}, Running, Answered},
		{"no room", Free, read, []happened{sent("a"), part(1, Chunk, Count|Append), said(Oversize, Cancel)}, Running, TooLarge},
		{"not a frame", Asked, keyed, after(permits, said(Garbled, Revoke)), Permitted, Broken},
		{"too many frames", Free, read, []happened{sent("a"), said(Flooded, Cancel)}, Open, Overrun},
		{"the bus is away", Free, read, []happened{said(NotSent, Cancel)}, Open, Unsent},
		{"nobody is there", Free, read, []happened{sent(""), said(Unheard, 0)}, Open, Unserved},
		{"nobody is left", Free, read, []happened{sent("a"), said(Unheard, Send), said(Nobody, 0)}, Open, Unserved},
		{"the next one is there", Free, read, []happened{sent("a"), said(Unheard, Send), sent("b")}, Open, None},

		{"another instance can take it", Free, read, []happened{sent("a", "b"), {Event{Kind: Timer, Now: 400 * ms, Around: Around{Connected: true, Others: []string{"b"}}}, Flush}, {Event{Kind: Flushed, Now: 401 * ms}, 0}, {Event{Kind: Timer, Now: 501 * ms, Around: Around{Connected: true, Others: []string{"b"}}}, Cancel}}, Open, Silent},
		{"the only instance is silent", Free, read, after(probes, timer(901*ms, Cancel)), Open, Stalled},
		{"it may have begun, with a key", Asked, keyed, after(permits, probes[1:]...), Permitted, None},
		{"it may have begun, with a key, and is silent", Asked, keyed, slices.Concat(permits, probes[1:], []happened{timer(901*ms, Revoke)}), Permitted, Stalled},
		{"it is gone", Free, read, after(probes, said(Unheard, 0)), Open, Gone},
		{"it is gone, in a cluster", Free, read, after(probes, happened{Event{Kind: Unheard, Around: Around{Clustered: true}}, 0}), Open, Away},
		{"it speaks again", Free, read, after(probes, part(1, Alive, Count|Deliver), happened{Event{Kind: Heard, Now: 860 * ms}, 0}, timer(1610*ms, Flush)), Open, None},
		{"bytes arrive", Free, read, []happened{sent("a"), timer(750*ms, Flush|Ask), {Event{Kind: Timer, Now: 1750 * ms, Around: Around{Connected: true, Received: 1}}, 0}, {Event{Kind: Timer, Now: 2750 * ms, Around: Around{Connected: true, Received: 1}}, Probe}, {Event{Kind: ProbeSent, Now: 2750 * ms}, Cancel}}, Open, Silent},
		{"frames wait to be read", Free, read, []happened{sent("a"), timer(750*ms, Flush|Ask), {Event{Kind: Flushed, Now: 751 * ms, Due: 2}, 0}, {Event{Kind: Timer, Now: 851 * ms, Around: Around{Connected: true, Delivered: 1, Pending: 1}}, 0}, timer(951*ms, Probe)}, Open, None},
		{"the flush takes long", Free, read, []happened{sent("a"), timer(750*ms, Flush|Ask), {Event{Kind: Flushed, Now: 850 * ms, Took: 100 * ms}, 0}, timer(950*ms, Probe), {Event{Kind: ProbeSent, OK: true, Now: 950 * ms}, 0}, timer(1200*ms, Probe)}, Open, None},
		{"this process stood still", Free, read, []happened{sent("a"), timer(1100*ms, 0), timer(1350*ms, Flush|Ask)}, Open, None},
		{"the time is over", Asked, keyed, after(permits, timer(time.Hour, Cancel)), Permitted, GaveUp},
		{"no connection", Free, read, []happened{sent("a"), {Event{Kind: Timer, Now: 750 * ms}, Cancel}}, Open, Silent},
		{"a server that may hang", Free, read, []happened{
			{Event{Kind: Sent, Instance: "a", Tried: 1, Around: Around{Clustered: true}}, 0},
			timer(750*ms, Flush|Ask), {Event{Kind: Flushed, Now: 751 * ms}, 0}, timer(851*ms, Probe), {Event{Kind: ProbeSent, OK: true, Now: 851 * ms}, 0},
			timer(1101*ms, Probe), {Event{Kind: ProbeSent, OK: true, Now: 1101 * ms}, 0}, timer(1351*ms, Probe), {Event{Kind: ProbeSent, OK: true, Now: 1351 * ms}, 0},
			{Event{Kind: Timer, Now: 1501 * ms, Around: Around{Connected: true, Clustered: true}}, Cancel},
		}, Open, Cut},
		{"the server is lost", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, StillRuns, 0), timer(750*ms, Flush|Ask)), Permitted, None},
		{"the server is lost, and nobody to ask", Free, Terms{}, []happened{sent("a"), said(ServerLost, 0)}, Open, None},
		{"the only one that can have it is asked", Free, read, []happened{sent(""), {Event{Kind: ServerLost, Around: Around{Others: []string{"b"}}}, Ask}}, Open, None},
		{"it has ended", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, HasEnded, Drain), told(Found, HasEnded, Answer)), Permitted, Answered},
		{"it has ended, whatever is on its way", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, HasEnded, Drain), said(Garbled, Revoke), told(Found, HasEnded, Answer)), Permitted, Answered},
		{"it never began", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, NeverBegun, Drain), told(Found, NeverBegun, Cancel)), Offered, Unstarted},
		{"it had not begun when it was asked", Asked, keyed, slices.Concat([]happened{sent("a"), said(ServerLost, Ask)}, permits[1:], []happened{told(Told, NeverBegun, 0)}), Permitted, None},
		{"it had not begun, and asks meanwhile", Asked, keyed, slices.Concat([]happened{sent("a"), said(ServerLost, Ask), told(Told, NeverBegun, Drain)}, permits[1:], []happened{told(Found, NeverBegun, 0)}), Permitted, None},
		{"it never began, and sent progress", Asked, keyed, after(permits, part(1, Note, Count|Deliver), said(ServerLost, Ask), told(Told, NeverBegun, Drain), told(Found, NeverBegun, 0)), Running, Unfound},
		{"the instance is gone with what it knew", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, WithInstance, Drain), told(Found, WithInstance, 0)), Permitted, Gone},
		{"it is forgotten, and can be read again", Free, read, []happened{sent("a"), said(ServerLost, Ask), told(Told, Forgotten, Drain), told(Found, Forgotten, Cancel)}, Open, Unstarted},
		{"it is forgotten", Asked, keyed, after(permits, said(ServerLost, Ask), told(Told, Forgotten, 0)), Permitted, None},
		{"no word, and frames", Asked, keyed, after(permits, said(ServerLost, Ask), happened{Event{Kind: Told, Fate: WithInstance, Waits: true}, 0}), Permitted, None},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.terms.Deadline = time.Minute
			begins := Send
			if c.guard == Ahead {
				begins = Decide
			}
			s := State{Terms: c.terms}
			for i, h := range append([]happened{{Event{Kind: Offer, Guard: c.guard}, begins}}, c.all...) {
				var do Do
				if s, do = Step(s, h.Event); do != h.do {
					t.Fatalf("event %d, of kind %d: do %b, want %b; %+v", i, h.Kind, do, h.do, s)
				}
			}
			if s.Phase != c.phase || s.End != c.end {
				t.Errorf("phase %d and end %d, want %d and %d", s.Phase, s.End, c.phase, c.end)
			}
		})
	}
}

// Whether an attempt that failed is made again, and what is said of it if it is not.
func TestAgain(t *testing.T) {
	t.Parallel()
	asked := func(p Phase, e End) State { return State{Guard: Asked, Phase: p, End: e} }
	free := func(e End) State { return State{End: e} }
	harmless := func(e End) State { return State{Terms: Terms{Harmless: true}, End: e} }
	only := State{Terms: Terms{Only: true}, End: Unserved}
	doubt, lost := State{Guard: Asked, Phase: Offered, Doubt: true, End: Answered}, free(Unserved)
	lost.Lost = true
	for _, c := range []struct {
		name     string
		s        State
		attempt  int
		reason   fault.Reason
		said     fault.Executed
		do       Do
		executed fault.Executed
	}{
		{"no permit, whatever it says", asked(Offered, Answered), 1, fault.Overloaded, fault.Yes, Again, fault.No},
		{"full twice", asked(Offered, Answered), 2, fault.Overloaded, fault.No, 0, fault.No},
		{"full, without a permit to wait for", free(Answered), 1, fault.Overloaded, fault.No, 0, fault.No},
		{"full for a read", harmless(Answered), 1, fault.Overloaded, fault.No, Again, fault.No},
		{"permitted and full", asked(Permitted, Answered), 1, fault.Overloaded, fault.No, 0, fault.No},
		{"permitted and late", asked(Running, Answered), 1, fault.DeadlineExceeded, fault.No, 0, fault.No},
		{"its clock is wrong", free(Answered), 1, fault.DeadlineExceeded, fault.No, Again, fault.No},
		{"its handler was late", free(Answered), 1, fault.DeadlineExceeded, fault.Unknown, 0, fault.Unknown},
		{"refused", State{Guard: Asked, Phase: Offered, End: Refused}, 1, fault.Overloaded, fault.Unknown, 0, fault.Unknown},
		{"it ran without a permit", asked(Running, Overruled), 1, fault.Conflict, fault.No, 0, fault.Unknown},
		{"lost before it began", asked(Offered, Silent), 1, fault.PeerLost, fault.Unknown, Again, fault.No},
		{"lost for the last time", asked(Offered, Silent), 3, fault.PeerLost, fault.Unknown, 0, fault.No},
		{"lost, permitted", asked(Permitted, Silent), 1, fault.PeerLost, fault.Unknown, 0, fault.Unknown},
		{"lost, and can be read again", harmless(Silent), 1, fault.PeerLost, fault.Unknown, Again, fault.Unknown},
		{"stalled", harmless(Stalled), 1, fault.PeerLost, fault.Unknown, 0, fault.Unknown},
		{"cut off", harmless(Cut), 3, fault.PeerLost, fault.Unknown, Again | Afresh, fault.Unknown},
		{"away", harmless(Away), 3, fault.PeerLost, fault.Unknown, Again, fault.Unknown},
		{"it says that it never began", asked(Offered, Unstarted), 3, fault.PeerLost, fault.Unknown, Again | Afresh, fault.No},
		{"nobody is there", free(Unserved), 1, fault.Unavailable, fault.No, Again, fault.No},
		{"nobody is there again", free(Unserved), 2, fault.Unavailable, fault.No, 0, fault.No},
		{"nobody is there after a loss", lost, 2, fault.Unavailable, fault.No, Again, fault.No},
		{"none of those that may", only, 1, fault.Unavailable, fault.No, 0, fault.No},
		{"the bus is away", free(Unsent), 1, fault.Unavailable, fault.No, 0, fault.No},
		{"its handler says so", free(Answered), 1, fault.Unavailable, fault.No, 0, fault.No},
		{"one before may have run", doubt, 3, fault.Conflict, fault.No, 0, fault.Unknown},
		{"any other", asked(Running, Answered), 1, fault.Internal, fault.Unknown, 0, fault.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.s.Deadline, c.s.Attempt, c.s.Most = time.Second, c.attempt, maxAttempts
			e := Event{Kind: Failed, Reason: c.reason, Executed: c.said, Known: true}
			s, do := Step(c.s, e)
			if do != c.do || s.Executed != c.executed {
				t.Errorf("do %b and executed %s, want %b and %s", do, s.Executed, c.do, c.executed)
			}
			if want := max(attemptPause, reconnectPause*time.Duration(boolean(c.reason == fault.Unavailable || c.s.End == Away))); s.Pause != want {
				t.Errorf("pause %v, want %v", s.Pause, want)
			}
			e.Now = time.Second - MinRemaining
			if _, do = Step(c.s, e); do != 0 {
				t.Error("again, without time for it")
			}
			if e.Known = false; c.s.End == Unserved {
				if _, do := Step(c.s, e); do != 0 {
					t.Error("again, without an instance")
				}
			}
		})
	}
	// Attempts at an instance that may come back count once MaxReturn has passed.
	s := harmless(Cut)
	s.Deadline, s.Attempt, s.Most = time.Minute, 3, 3
	if _, do := Step(s, Event{Kind: Failed, Reason: fault.PeerLost, Executed: fault.Unknown, Now: MaxReturn}); do != 0 {
		t.Error("again, for ever")
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The end of an attempt says whether its instance is lost.
func TestInstance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    State
		want Word
	}{
		{State{}, Absent}, {State{End: Answered, Seq: 1}, Lives}, {State{End: Answered}, Nothing}, {State{End: GaveUp, Seq: 2}, Lives},
		{State{End: Silent, Seq: 1}, Quiet}, {State{End: Stalled}, Quiet}, {State{End: Gone}, Absent}, {State{End: Unsent}, Nothing}, {State{End: Unstarted}, Nothing},
	} {
		if got := c.s.Instance(); got != c.want {
			t.Errorf("end %d after frame %d: %d, want %d", c.s.End, c.s.Seq, got, c.want)
		}
	}
	if a, b := (&State{End: Gone}).Absent(), (&State{End: Silent}).Absent(); !a || b {
		t.Error("only a gone instance is absent")
	}
}

// An instance that asks for a permit may have stood still when it reads one.
func TestQuestion(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }
	first := Question{}.Ask(at(0))
	second := first.Ask(at(AliveEvery)).Ask(at(AliveEvery + MaxSilence))
	for _, c := range []struct {
		name    string
		q       Question
		at      time.Duration
		granted bool
		turn    uint32
		want    Reply
	}{
		{"granted", first, ms, true, 1, Begin},
		{"granted by a caller that does not know numbers", first, ms, true, 0, Begin},
		{"refused", first, ms, false, 1, Unwanted},
		{"refused an earlier question", second, 1001 * ms, false, 1, Unwanted},
		{"its caller may have given up since", first, MaxSilence, true, 1, AskAgain},
		{"its caller has given up", first, PermitTime, true, 1, CallerGone},
		{"for an earlier question", second, 1001 * ms, true, 1, Wait},
		{"for an earlier question, without a number", second, 1001 * ms, true, 0, Wait},
		{"for the question after a silence", second, 1001 * ms, true, 2, Begin},
		{"too late for any question", second, PermitTime, true, 2, CallerGone},
	} {
		if got := c.q.Heard(at(c.at), c.granted, c.turn); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if first.Turn != 1 || second.Turn != 2 {
		t.Errorf("questions %d and %d", first.Turn, second.Turn)
	}
}
