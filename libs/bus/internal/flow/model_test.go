package flow

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// A model of a caller, NATS and a few instances, in which a schedule of bytes decides what goes wrong:
// messages are late, lost or copied, instances are full, die, stand still or cannot be reached, servers
// go away, callers give up or leave. Whatever happens, a call that may have an effect never runs twice,
// one that is said not to have run did not and will not, none begins long after its caller was told, and
// every call ends in time and once.

// schedule decides. Once it is used up, nothing more goes wrong.
type schedule []byte

// pick returns a number below n. 0 is what happens if nothing goes wrong.
func (s *schedule) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

// rarely is true about once in n times.
func (s *schedule) rarely(n int) bool { return s.pick(n) == n-1 }

// due is something that happens later.
type due struct {
	at   time.Duration
	n    int
	then func()
}

type dues []due

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].n < d[j].n
}
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)   { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

type world struct {
	t        testing.TB
	schedule schedule
	now      time.Duration
	n        int
	later    dues
	all      []*instance

	// The caller.
	s         State
	guard     Guard
	harmless  bool
	attempt   int
	tried     []string
	permitted string
	denies    bool
	overAt    time.Duration // 0 for never
	left      bool
	connected bool
	received  uint64
	flushes   int
	asks      int
	ended     bool
	executed  fault.Executed
	answered  bool
	steps     int

	runs  int
	begun time.Duration // the last one
}

// clock is the time as an instance reads it.
func (w *world) clock() time.Time { return time.Unix(0, 0).Add(w.now) }

func (w *world) after(d time.Duration, then func()) {
	w.n++
	heap.Push(&w.later, due{w.now + d, w.n, then})
}

// trouble is what may go wrong at any time.
func (w *world) trouble() {
	i := w.all[w.schedule.pick(len(w.all))]
	long := []time.Duration{100 * time.Millisecond, 800 * time.Millisecond, 2 * time.Second, 8 * time.Second}
	switch w.schedule.pick(6) {
	case 1:
		i.dead = true
	case 2:
		i.stays = true
		w.after(long[w.schedule.pick(len(long))], func() {
			i.stays = false
			waiting := i.waiting
			i.waiting = nil
			for _, one := range waiting {
				i.do(one)
			}
		})
	case 3:
		i.cut = true
		w.after(long[w.schedule.pick(len(long))], func() { i.cut = false })
	case 4:
		w.connected = false
		w.after(long[w.schedule.pick(2)], func() { w.connected = true })
		w.event(Event{Kind: ServerLost})
	case 5: // nothing is remembered for ever
		for _, c := range i.calls {
			if c.state == HasEnded {
				c.state = Forgotten
			}
		}
	}
	if len(w.schedule) > 0 {
		w.after(long[w.schedule.pick(2)], w.trouble)
	}
}

func (w *world) around() Around {
	a := Around{Connected: w.connected, Clustered: w.harmless && len(w.all) > 1, Received: w.received}
	for _, i := range w.all {
		if !i.dead && !slices.Contains(w.tried, i.name) {
			a.Others = append(a.Others, i.name)
		}
	}
	return a
}

func (w *world) named(name string) *instance {
	for _, i := range w.all {
		if i.name == name {
			return i
		}
	}
	return nil
}

// arrives is a message for an attempt.
func (w *world) arrives(attempt int, e Event) {
	w.received++
	if w.ended || attempt != w.attempt {
		return
	}
	w.event(e)
	if !w.ended && attempt == w.attempt {
		w.event(Event{Kind: Heard})
	}
}

// event is the loop around Step, as libs/bus has it.
func (w *world) event(e Event) {
	if w.ended || w.s.Attempt == 0 && e.Kind != Offer || w.s.End != None && e.Kind != Offer {
		return
	}
	for {
		if w.steps++; w.steps > 10_000 {
			w.t.Fatal("it never ends")
		}
		e.Now, e.Around = w.now, w.around()
		var do Do
		w.s, do = Step(w.s, e)
		attempt := w.attempt
		if do&Refuse != 0 {
			id := w.attempt
			if i := w.named(e.Instance); i != nil {
				w.to(i, false, func() { i.permit(id, false, 0) })
			}
		}
		if do&Flush != 0 {
			w.flushes++
			n := w.flushes
			took := []time.Duration{time.Millisecond, 80 * time.Millisecond, 3 * time.Second}[w.schedule.pick(3)]
			w.after(took, func() {
				if n == w.flushes && w.s.Flushing {
					w.event(Event{Kind: Flushed, Took: took})
				}
			})
		}
		if do&Ask != 0 {
			w.asks++
			n, i := w.asks, w.named(w.s.Holder(e.Around))
			told := func(f Fate) {
				if n == w.asks && attempt == w.attempt && w.s.Asking {
					w.asks++
					w.event(Event{Kind: Told, Fate: f, Waits: w.schedule.rarely(4)})
				}
			}
			w.after(250*time.Millisecond, func() { told(NotKnown) })
			if i == nil || i.dead || i.cut {
				w.travel(func() { told(WithInstance) })
			} else {
				w.travel(func() { i.do(func() { f := i.fate(attempt); w.travel(func() { told(f) }) }) })
			}
		}
		switch {
		case do&Answer != 0:
			w.end(do, e)
			return
		case w.s.End != None:
			w.fails(do, e)
			return
		case do&Send != 0:
			e = w.send()
		case do&Decide != 0:
			switch {
			case w.denies:
				e.Kind = Denied
			case w.over() && w.s.Phase != Leaving || w.now >= w.s.Deadline:
				e.Kind, e.Left = Over, w.left
			default:
				e.Kind = Agreed
			}
		case do&Permit != 0:
			if w.permitted != "" && w.permitted != w.s.By {
				w.t.Fatalf("%s and %s are permitted", w.permitted, w.s.By)
			}
			e.Kind, e.OK = PermitSent, w.connected
			if w.connected {
				w.permitted = w.s.By
				i, id, turn, reply := w.named(w.s.By), w.attempt, e.Turn, w.s.Phase != Leaving
				w.to(i, reply, func() { i.permit(id, true, turn) })
			}
		case do&Probe != 0:
			e.Kind, e.OK = ProbeSent, w.connected
			w.to(w.named(w.s.Holder(e.Around)), true, func() {})
		case do&Demand != 0:
			e.Kind, e.Fate = Found, NotKnown
			if i := w.named(w.s.Holder(e.Around)); i != nil && !w.schedule.rarely(3) {
				e.Fate = i.fate(w.attempt)
			}
		case do&Drain != 0:
			e.Kind = Found
		default:
			return
		}
	}
}

// send sends the request to an instance.
func (w *world) send() Event {
	if !w.connected {
		return Event{Kind: NotSent}
	}
	var free []*instance
	for _, i := range w.all {
		if !slices.Contains(w.tried, i.name) {
			free = append(free, i)
		}
	}
	e := Event{Kind: Sent}
	i := w.all[w.schedule.pick(len(w.all))]
	if len(free) > 0 && !w.schedule.rarely(5) {
		i = free[w.schedule.pick(len(free))]
		e.Instance = i.name
		w.tried = append(w.tried, i.name)
	}
	e.Tried = len(w.tried)
	id, guard, deadline := w.attempt, w.guard, w.s.Deadline
	w.to(i, true, func() { i.receive(id, guard, deadline) })
	return e
}

func (w *world) over() bool { return w.overAt != 0 && w.now >= w.overAt || w.now >= w.s.Deadline }

// end ends an attempt that was answered.
func (w *world) end(do Do, e Event) {
	if e.Kind == Frame && e.Part == Failure || e.Kind == Found && w.failure() != nil {
		w.fails(do, e)
		return
	}
	w.ended, w.answered = true, true
}

func (w *world) failure() *work {
	for _, i := range w.all {
		if c := i.calls[w.attempt]; c != nil && c.failed {
			return c
		}
	}
	return nil
}

// fails ends an attempt, and makes the next one if there is one.
func (w *world) fails(do Do, e Event) {
	id := w.attempt
	f := Event{Kind: Failed, Now: w.now, Reason: fault.PeerLost, Executed: fault.Unknown, Known: true}
	switch w.s.End {
	case GaveUp:
		f.Reason = fault.Cancelled
	case Unserved, Unsent:
		f.Reason, f.Executed = fault.Unavailable, fault.No
	case Refused:
		f.Reason, f.Executed = fault.Conflict, fault.No
	case Answered:
		f.Executed = e.Executed
		if c := w.failure(); e.Kind == Found {
			f.Executed = c.said
		}
		f.Reason = []fault.Reason{fault.Overloaded, fault.PeerLost, fault.Unavailable, fault.DeadlineExceeded}[w.schedule.pick(4)]
	}
	for _, i := range w.all {
		if do&(Cancel|Revoke) != 0 {
			w.to(i, false, func() {
				c := i.calls[id]
				if c == nil && do&Cancel != 0 {
					i.calls[id] = &work{id: id, state: NeverBegun} // it overtook its request
				} else if c != nil && c.asking {
					i.end(c, Failure, fault.No)
				}
			})
		}
	}
	state, again := Step(w.s, f)
	if again&Again == 0 || w.over() {
		w.ended, w.executed = true, state.Executed
		return
	}
	w.s = state
	if again&Afresh != 0 {
		w.tried = nil
	}
	w.attempt++
	w.permitted = ""
	// Between two attempts nothing is heard.
	w.s.End = GaveUp
	w.after(state.Pause, func() {
		w.s.End = None
		w.event(Event{Kind: Offer, Guard: w.guard})
	})
}

// live lets a call live and end.
func live(t testing.TB, data []byte) {
	w := &world{t: t, schedule: data, connected: true, attempt: 1}
	for _, name := range []string{"a", "b", "c"}[:1+w.schedule.pick(3)] {
		w.all = append(w.all, &instance{w: w, name: name, calls: map[int]*work{}})
	}
	w.guard = []Guard{Asked, Free, Ahead}[w.schedule.pick(3)]
	w.harmless = w.schedule.rarely(3)
	w.s.Terms = Terms{Harmless: w.harmless, Keyed: w.schedule.rarely(3), Edge: !w.schedule.rarely(6), Deadline: 10 * time.Second}
	w.denies = w.schedule.rarely(10)
	if w.schedule.rarely(4) {
		w.overAt = time.Duration(1+w.schedule.pick(40)) * 100 * time.Millisecond
		w.left = w.schedule.rarely(2)
		w.after(w.overAt, func() { w.event(Event{Kind: Over, Left: w.left}) })
	}
	w.after(time.Duration(w.schedule.pick(50))*10*time.Millisecond, w.trouble)
	w.event(Event{Kind: Offer, Guard: w.guard})
	end := time.Duration(0)
	// It goes on for a minute after the end: what runs late counts too.
	for w.now < time.Minute+10*time.Second {
		timer, waits := w.s.Next(), !w.ended && w.s.End == None && w.s.Attempt > 0
		if len(w.later) > 0 && (!waits || w.later[0].at <= timer) {
			one := heap.Pop(&w.later).(due)
			w.now = max(w.now, one.at)
			one.then()
		} else if waits {
			w.now = max(w.now, timer)
			w.event(Event{Kind: Timer})
		} else {
			break
		}
		if w.ended && end == 0 {
			end = w.now
		}
	}
	switch {
	case !w.ended:
		t.Errorf("it has not ended: %+v", w.s)
	case end > w.s.Deadline+10*time.Millisecond:
		t.Errorf("it ended after %v", end)
	case w.guard == Asked && w.begun > end+2*time.Second: // longer than a permit may travel and wait
		t.Errorf("it began %v after its caller was told", w.begun-end)
	case w.runs > 1 && !w.harmless:
		t.Errorf("it ran %d times", w.runs)
	case w.executed == fault.No && w.runs > 0:
		t.Errorf("executed is no, and it ran %d times", w.runs)
	case w.answered && w.runs == 0:
		t.Error("it was answered and did not run")
	}
}

func FuzzCall(f *testing.F) {
	for n := range uint64(200) {
		f.Add(random(n))
	}
	f.Fuzz(func(t *testing.T, data []byte) { live(t, data[:min(len(data), 400)]) })
}

func random(n uint64) []byte {
	r := rand.New(rand.NewPCG(n, 1))
	data := make([]byte, r.IntN(200))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestCalls lives through many schedules. FuzzCall finds more.
func TestCalls(t *testing.T) {
	t.Parallel()
	for n := range uint64(20_000) {
		live(t, random(n))
		if t.Failed() {
			t.Fatalf("schedule %d", n)
		}
	}
}
