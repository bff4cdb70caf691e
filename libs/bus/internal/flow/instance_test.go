package flow

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// instance is one that obeys the protocol.
type instance struct {
	w           *world
	name        string
	dead, stays bool // stays: it stands still
	cut         bool // NATS cannot reach it
	waiting     []func()
	calls       map[int]*work
}

type work struct {
	id       int
	state    Fate // NeverBegun once it was refused
	asking   bool
	question Question
	seq      uint32
	failed   bool
	said     fault.Executed
}

// travel brings a message: late, not at all, or twice.
func (w *world) travel(then func()) {
	if w.schedule.rarely(12) || !w.connected && w.schedule.rarely(2) {
		return
	}
	delay := []time.Duration{time.Millisecond, 3 * time.Millisecond, 60 * time.Millisecond, 900 * time.Millisecond}
	w.after(delay[w.schedule.pick(len(delay))], then)
	if w.schedule.rarely(12) {
		w.after(delay[w.schedule.pick(len(delay))], then)
	}
}

// to brings a message to an instance, or says that nobody received it.
func (w *world) to(i *instance, unheard bool, then func()) {
	if i == nil || i.dead || i.cut {
		if unheard {
			attempt := w.attempt
			w.after(time.Duration(1+w.schedule.pick(100))*time.Millisecond, func() { w.arrives(attempt, Event{Kind: Unheard}) }) // never twice
		}
		return
	}
	w.travel(func() { i.do(then) })
}

// do has an instance do something, once it can.
func (i *instance) do(then func()) {
	switch {
	case i.dead:
	case i.stays:
		i.waiting = append(i.waiting, then)
	default:
		then()
	}
}

// say sends a frame to the attempt that waits.
func (i *instance) say(c *work, e Event) {
	if i.dead || i.cut {
		return
	}
	e.Instance = i.name
	i.w.travel(func() { i.w.arrives(c.id, e) })
}

func (i *instance) frame(c *work, part Part) {
	c.seq++
	i.say(c, Event{Kind: Frame, Seq: c.seq, Part: part})
}

// end ends a call. One that did not run is forgotten: it did not begin, and will not.
func (i *instance) end(c *work, part Part, said fault.Executed) {
	if c.state != StillRuns {
		return
	}
	c.state, c.asking, c.failed, c.said = HasEnded, false, part == Failure, said
	if said == fault.No {
		c.state = NeverBegun
	}
	c.seq++
	i.say(c, Event{Kind: Frame, Seq: c.seq, Part: part, Executed: said})
}

// receive takes a request.
func (i *instance) receive(id int, guard Guard, deadline time.Duration) {
	if i.calls[id] != nil {
		return // a copy
	}
	c := &work{id: id, state: StillRuns}
	i.calls[id] = c
	i.beat(c)
	switch {
	case i.w.schedule.rarely(10):
		i.end(c, Failure, fault.No) // full
	case i.w.now > deadline:
		i.end(c, Failure, fault.No)
	case guard != Asked:
		i.run(c)
	default:
		c.asking = true
		i.ask(c)
		i.w.after(PermitTime, func() {
			i.do(func() {
				if c.asking {
					i.end(c, Failure, fault.No)
				}
			})
		})
	}
}

func (i *instance) beat(c *work) {
	i.w.after(FirstAlive, func() {
		i.do(func() {
			if c.state == StillRuns {
				i.frame(c, Alive)
				i.beat(c)
			}
		})
	})
}

func (i *instance) ask(c *work) {
	if !c.asking {
		return
	}
	c.question = c.question.Ask(i.w.clock())
	i.say(c, Event{Kind: Ready, Turn: c.question.Turn})
	i.w.after(AliveEvery, func() { i.do(func() { i.ask(c) }) })
}

// permit takes the caller's word.
func (i *instance) permit(id int, granted bool, turn uint32) {
	c := i.calls[id]
	if c == nil || !c.asking {
		return
	}
	switch c.question.Heard(i.w.clock(), granted, turn) {
	case AskAgain:
		c.question = c.question.Ask(i.w.clock())
		i.say(c, Event{Kind: Ready, Turn: c.question.Turn})
	case Begin:
		c.asking = false
		i.run(c)
	case Unwanted, CallerGone:
		i.end(c, Failure, fault.No)
	}
}

func (i *instance) run(c *work) {
	i.w.runs++
	i.w.begun = i.w.now
	takes := []time.Duration{time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second}[i.w.schedule.pick(4)]
	for range i.w.schedule.pick(3) {
		i.frame(c, Note)
	}
	i.w.after(takes, func() {
		i.do(func() {
			if c.state != StillRuns {
				return
			}
			if i.w.schedule.rarely(6) {
				i.end(c, Failure, fault.Yes)
				return
			}
			if i.w.schedule.rarely(3) {
				i.frame(c, Chunk)
			}
			i.end(c, Result, "")
		})
	})
}

func (i *instance) fate(id int) Fate {
	switch c := i.calls[id]; {
	case i.dead || i.cut:
		return WithInstance
	case c == nil:
		return NeverBegun
	default:
		return c.state
	}
}
