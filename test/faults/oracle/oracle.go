// Package oracle compares the answers to clients, the executions and the audit trail.
package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/ledger"
)

// Name names an oracle by the fault that it does not allow.
type Name string

// O1 is about effects, O2 about answers, O3 about the audit trail, O4 about what grows,
// O5 about promises that are longer than a call.
const (
	Lost      Name = "O1 lost"
	Doubled   Name = "O1 doubled"
	Late      Name = "O1 late"
	Unasked   Name = "O1 unasked"
	Executed  Name = "O2 executed"
	Answer    Name = "O2 answer"
	Refused   Name = "O2 refused"
	Begun     Name = "O3 begun"
	Ended     Name = "O3 ended"
	Untrue    Name = "O3 untrue"
	Twice     Name = "O3 twice"
	Grown     Name = "O4 grown"
	Stuck     Name = "O4 stuck"
	Tampered  Name = "O3 tampered"
	Forgotten Name = "O5 forgotten"
	Unseen    Name = "unseen"
)

// Means says what each one does not allow.
var Means = map[Name]string{
	Lost:      "a call that succeeded has no effect",
	Doubled:   "a call has more than one effect",
	Late:      "an effect began after its caller had given up",
	Unasked:   "something ran that no client asked for, or that nobody agreed to",
	Executed:  "`executed` is not true",
	Answer:    "an answer is not that of the execution with the call's key",
	Refused:   "a call failed that had to succeed",
	Begun:     "an effect has no beginning in the trail",
	Ended:     "an effect, or an acknowledged call, has no end in the trail",
	Untrue:    "the trail says of a call that it ran, or that it did not, and that is not true",
	Twice:     "the trail has an end of a call twice",
	Tampered:  "a change of the trail is not seen, or seen at another row",
	Grown:     "memory, descriptors or goroutines are not given back",
	Stuck:     "a process does not end when it is told to",
	Unseen:    "a planted bug was found by no oracle",
	Forgotten: "a task, a session, a held call or a notification was forgotten",
}

// Finding is something that must not happen.
type Finding struct {
	Oracle Name
	Text   string
}

func (f Finding) String() string { return string(f.Oracle) + ": " + f.Text }

// Span is a time.
type Span struct{ From, To time.Time }

// Overlaps reports whether a time has a part in it.
func (s Span) Overlaps(from, to time.Time) bool { return s.From.Before(to) && s.To.After(from) }

// Run is everything that is known of one run.
type Run struct {
	Calls []history.Call
	Ran   []ledger.Run
	Trail []Row
	// Kept are the resources that are there in the end.
	Kept map[string]bool
	// EdgesKilled and ServicesKilled are when one was killed, or hung: what it knew
	// alone, nobody can say for a while.
	EdgesKilled, ServicesKilled []Span
	// LedgersKilled are when an instance of the ledger was, or NATS: nobody else knows what ran there.
	// EdgesDied are the moments at which an edge was killed: what it had to record is lost.
	LedgersKilled, EdgesDied []Span
	// Strict: no try fails for no reason. A reason is that a part was Away, or that the machine, or a
	// process, stood still by itself.
	Strict      bool
	Away, Still []Span
}

// lateAfter is the longest time of a call from the edge to its handler on a busy machine: a call
// that an outage held back arrives seconds later.
const lateAfter = 5 * time.Second

// Check has all oracles look at a run.
func Check(r Run) []Finding {
	c := checker{Run: r, ran: map[string][]ledger.Run{}}
	for _, e := range r.Ran {
		c.ran[e.Key] = append(c.ran[e.Key], e)
	}
	c.answers()
	c.asked()
	if r.Trail != nil {
		c.trail()
	}
	return c.found
}

type checker struct {
	Run
	ran   map[string][]ledger.Run
	found []Finding
}

func (c *checker) find(n Name, format string, args ...any) {
	c.found = append(c.found, Finding{n, fmt.Sprintf(format, args...)})
}

// answers looks at each call for itself.
func (c *checker) answers() {
	for _, call := range c.Calls {
		last := call.Last()
		if call.Broken != "" {
			c.find(Forgotten, "%s: %s", name(call), call.Broken)
		}
		for _, t := range call.Tries {
			if t.Reason == "session" {
				c.find(Forgotten, "%s: the session is not known at %s", name(call), t.Edge)
			}
		}
		if must(call) && !call.OK() && !(call.Kind == history.Keyed && c.killed(c.LedgersKilled, call)) {
			c.find(Refused, "%s after %v and %d tries: %v", name(call), call.Took().Round(time.Millisecond), len(call.Tries), last.Answer)
		}
		c.keyed(call)
		c.strict(call)
		switch {
		case call.Kind == history.Changed:
			if call.Broken == "" && c.Kept[call.Key] {
				c.find(Lost, "%s: its deletion was answered, and it is there", name(call))
			}
			continue
		case call.Kind == history.Stored || call.Kind == history.Told:
			if call.Last().OK && !c.Kept[call.Key] {
				c.find(Lost, "%s: answered %s, and there is no such resource", name(call), last.Text)
			}
			continue
		case call.Key == "" || call.Kind == history.Task:
			continue // tasks run again when their instance dies
		}
		c.effects(call)
	}
}

// keyed checks the answers for a key: once a call with it was answered, or is said to have run, no
// other call with it is "no"; and if all are "no", nothing ran.
func (c *checker) keyed(call history.Call) {
	if call.Kind != history.Keyed && call.Kind != history.Stored {
		return
	}
	ran, never := false, true
	for _, t := range call.Tries {
		no := !t.OK && t.Executed == "no"
		if ran && no && t.Reason != "connection" { // which is the client's own word, of this try
			c.find(Executed, "%s: an earlier try with its key ran, and then: %v", name(call), t.Answer)
		}
		ran, never = ran || t.OK || t.Executed == "yes", never && no
	}
	if call.Kind == history.Stored && never && c.Kept[call.Key] {
		c.find(Executed, "%s: answered %v, and its resource is there", name(call), call.Last().Answer)
	}
}

// silences are the reasons of tries that fail because something stood still.
var silences = []string{"unavailable", "peer_lost", "deadline_exceeded", "overloaded", "connection"}

// strict requires that each try succeeds, or has a reason not to. A client repeats a call with a key,
// so there only the last try counts.
func (c *checker) strict(call history.Call) {
	if !c.Strict || call.Kind == history.Impatient || call.Kind == history.Overdue {
		return
	}
	repeated := slices.Contains([]history.Kind{history.Keyed, history.Stored, history.Changed, history.Told}, call.Kind)
	for i, t := range call.Tries {
		if repeated && i < len(call.Tries)-1 {
			continue
		}
		overlaps := func(s Span) bool { return s.Overlaps(call.Began, t.Ended) }
		switch {
		case t.OK || t.Approval != "":
		case call.Kind == history.Approval && slices.ContainsFunc(call.Tries[:i], func(t history.Try) bool { return t.OK }): // it is used up
		case slices.ContainsFunc(c.Away, overlaps):
		case slices.Contains(silences, t.Reason) && slices.ContainsFunc(c.Still, overlaps):
		default:
			c.find(Refused, "%s: %v after %v, although nothing was away", name(call), t.Answer, t.Ended.Sub(t.Began).Round(time.Millisecond))
			return
		}
	}
}

// must reports whether a call has to succeed in the end.
func must(call history.Call) bool {
	return call.Kind == history.Read || call.Kind == history.Keyed || call.Kind == history.Stored
}

func (c *checker) killed(spans []Span, call history.Call) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.Overlaps(call.Began, call.Ended) })
}

func (c *checker) effects(call history.Call) {
	ran, last := c.ran[call.Key], call.Last()
	ok := slices.ContainsFunc(call.Tries, func(t history.Try) bool { return t.OK })
	never := !slices.ContainsFunc(call.Tries, func(t history.Try) bool { return t.Executed != "no" || t.OK })
	yes := slices.ContainsFunc(call.Tries, func(t history.Try) bool { return !t.OK && t.Executed == "yes" })
	if len(ran) > 1 {
		c.find(Doubled, "%s: %d times, answered %v", name(call), len(ran), last.Answer)
	}
	switch {
	case ok && len(ran) == 0:
		c.find(Lost, "%s: answered %s", name(call), last.Text)
	case never && len(ran) > 0:
		c.find(Executed, "%s: answered %v, and it ran at %s", name(call), last.Answer, ran[0].At.Format(clock))
	case yes && len(ran) == 0:
		c.find(Executed, "%s: answered %v, and it has not run", name(call), last.Answer)
	}
	for _, t := range call.Tries {
		if t.OK && len(ran) > 0 && !slices.ContainsFunc(ran, func(e ledger.Run) bool { return contains(t.Text, e.ID) }) {
			c.find(Answer, "%s: answered %s, and what ran is %s", name(call), t.Text, ran[0].ID)
		}
	}
	if agreed := slices.IndexFunc(call.Tries, func(t history.Try) bool { return t.Reason == "approval_required" }); call.Kind == history.Approval && ok && agreed < 0 {
		c.find(Unasked, "%s: it ran, and nobody was asked to agree", name(call))
	}
	for _, e := range ran {
		began := e.Began
		if !c.killed(slices.Concat(c.EdgesKilled, c.ServicesKilled), call) {
			began = e.At // who is told to stop, and can hear it, stops
		}
		if !ok && began.After(call.Ended.Add(lateAfter)) {
			c.find(Late, "%s: %v after its caller was told %v", name(call), began.Sub(call.Ended).Round(time.Millisecond), last.Answer)
		}
	}
}

// asked requires a client of everything that ran.
func (c *checker) asked() {
	known := map[string]bool{}
	for _, call := range c.Calls {
		known[call.Key] = true
	}
	for key := range c.ran {
		if !known[key] {
			c.find(Unasked, "%s ran", key)
		}
	}
}

const clock = "15:04:05.000"

func name(c history.Call) string {
	return fmt.Sprintf("%s %s %s at %s", c.Door, c.Kind, c.Key, c.Began.Format(clock))
}
