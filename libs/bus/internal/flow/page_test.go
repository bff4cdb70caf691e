package flow

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	phases = []string{"Open", "Offered", "Deciding", "Permitted", "Running", "Overtaken", "Leaving"}
	ends   = []string{"", "Answered", "Refused", "Overruled", "GaveUp", "Unsent", "Unserved", "Gone", "Away", "Silent", "Stalled", "Cut", "Unstarted", "Unfound", "Lossy", "Broken", "Overrun", "TooLarge"}
	kinds  = []string{"Offer", "Frame", "Ready", "Unheard", "Heard", "Timer", "ServerLost", "Over", "Garbled", "Flooded", "Oversize", "Sent", "NotSent", "Nobody", "Agreed", "Denied", "PermitSent", "ProbeSent", "Flushed", "Told", "Found", "Failed"}
)

// ways are the ways from a state to another one: the states from which an event leads to one.
type ways map[[2]string]map[string]bool

func (w ways) add(from State, e Event, to State) {
	name := ends[to.End]
	if to.End == None {
		name = phases[to.Phase]
	}
	if to.End == None && to.Phase == from.Phase {
		return
	}
	key := [2]string{kinds[e.Kind], name}
	if w[key] == nil {
		w[key] = map[string]bool{}
	}
	w[key][phases[from.Phase]] = true
}

func (w ways) rows() (all []string) {
	for key, from := range w {
		names := "`" + strings.Join(slices.Sorted(maps.Keys(from)), "`, `") + "`"
		names = strings.Replace(names, "`Offered`, `Open`, `Permitted`, `Running`", "`Waiting`", 1)
		all = append(all, fmt.Sprintf("| %s | `%s` | `%s`", names, key[0], key[1]))
	}
	return all
}

// walk goes all ways that a call can go, as the loop around Step lets it.
func walk() ways {
	found, seen := ways{}, map[State]bool{}
	type place struct {
		s  State
		do Do
		e  Event
	}
	var next []place
	step := func(s State, e Event) {
		before := s
		s, do := Step(s, e)
		found.add(before, e, s)
		// Times count from the last sign of life, and numbers only as far as they decide something.
		s.Until, s.Heard, s.Seq, s.Permits, s.Due = s.Until-s.Heard, 0, min(s.Seq, 1), min(s.Permits, 2), 0
		key := s
		key.Attempt += 10 * int(do)
		if s.End == None && !seen[key] {
			seen[key] = true
			next = append(next, place{s, do, e})
		}
	}
	for _, guard := range []Guard{Free, Asked, Ahead} {
		for _, harmless := range []bool{false, true} {
			step(State{Terms: Terms{Edge: true, Harmless: harmless, Deadline: time.Hour}}, Event{Kind: Offer, Guard: guard})
		}
	}
	for len(next) > 0 {
		p := next[0]
		next = next[1:]
		s, e := p.s, p.e
		results := func(kinds ...Kind) {
			for _, kind := range kinds {
				for _, yes := range []bool{false, true} {
					e.Kind, e.OK, e.Left = kind, yes, yes
					step(s, e)
				}
			}
		}
		switch {
		case p.do&Send != 0:
			step(s, Event{Kind: NotSent})
			step(s, Event{Kind: Nobody})
			for _, instance := range []string{"", "a"} {
				step(s, Event{Kind: Sent, Instance: instance})
			}
		case p.do&Decide != 0:
			results(Agreed, Denied, Over)
		case p.do&Permit != 0:
			results(PermitSent)
		case p.do&Probe != 0:
			e.Around.Connected = true
			results(ProbeSent)
		case p.do&(Demand|Drain) != 0:
			for fate := range HasEnded + 1 {
				e.Kind, e.Fate = Found, fate
				step(s, e)
			}
		default:
			if p.do&Append != 0 {
				step(s, Event{Kind: Oversize})
			}
			outside(s, step)
		}
	}
	return found
}

// outside are the events that can come at any time.
func outside(s State, step func(State, Event)) {
	for _, kind := range []Kind{Heard, Garbled, Flooded} {
		step(s, Event{Kind: kind})
	}
	for _, left := range []bool{false, true} {
		step(s, Event{Kind: Over, Left: left})
	}
	for part := range Failure + 1 {
		for _, gap := range []uint32{1, 2} {
			step(s, Event{Kind: Frame, Instance: "a", Seq: s.Seq + gap, Part: part, MayLeave: s.Harmless})
		}
	}
	for _, instance := range []string{"a", "b"} {
		step(s, Event{Kind: Ready, Instance: instance})
	}
	if s.Flushing {
		step(s, Event{Kind: Flushed})
	}
	for fate := range HasEnded + 1 {
		if s.Asking {
			step(s, Event{Kind: Told, Fate: fate})
		}
	}
	for _, around := range []Around{{}, {Connected: true}, {Connected: true, Clustered: true}, {Connected: true, Others: []string{"b"}}} {
		step(s, Event{Kind: Unheard, Around: around})
		step(s, Event{Kind: ServerLost, Around: around})
		step(s, Event{Kind: Timer, Now: s.Next(), Around: around})
		step(s, Event{Kind: Timer, Now: s.Deadline, Around: around})
	}
}

// docs/explanation/a-call.md has tables of the ways from a state to another one, and of the ends.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/explanation/a-call.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[int][]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| `") {
			told[len(cells)] = append(told[len(cells)], strings.Join(cells[:3], " | "))
		}
	}
	same := func(what string, told, want []string) {
		slices.Sort(told)
		slices.Sort(want)
		if !slices.Equal(told, want) {
			t.Errorf("the page has other %s than the code, which has these:\n%s", what, strings.Join(want, "\n"))
		}
	}
	same("ways", told[4], walk().rows())
	var rows []string
	words := []string{"–", "alive", "silent", "absent"}
	for end, rule := range rules[Answered:] {
		cancelled := "no"
		if rule.cancel {
			cancelled = "yes"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", ends[end+1], words[rule.instance], cancelled))
	}
	same("ends", told[3], rows)
	for _, name := range phases {
		if !strings.Contains(string(page), "\n| "+name+" | ") {
			t.Errorf("the page does not explain %s", name)
		}
	}
}
