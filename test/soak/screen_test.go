package soak

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// screen reports progress, a line each ten seconds, and everything at the end.
type screen struct {
	w      *world
	m      *measuring
	end    time.Time
	colour bool
	quit   chan struct{}
	gone   chan struct{}
}

func startScreen(w *world, m *measuring, end time.Time) *screen {
	info, err := os.Stdout.Stat()
	s := &screen{w: w, m: m, end: end, quit: make(chan struct{}), gone: make(chan struct{})}
	s.colour = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""
	go func() {
		defer close(s.gone)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for before := 0; ; {
			select {
			case <-tick.C:
				before = s.line(before)
			case <-s.quit:
				return
			}
		}
	}()
	return s
}

func (s *screen) stop() {
	close(s.quit)
	<-s.gone
}

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) line(before int) (calls int) {
	var all tally
	for _, t := range s.w.counts() {
		all.ok, all.refused, all.unknown, all.retried = all.ok+t.ok, all.refused+t.refused, all.unknown+t.unknown, all.retried+t.retried
	}
	calls = all.ok + all.refused + all.unknown
	line := fmt.Sprintf("%8s  %7d calls %4d/s  %d refused, %d unknown  edge %3.0f MiB, %4.0f goroutines  EVT %.1f, AUDIT %.1f MiB",
		time.Until(s.end).Round(time.Second), calls, (calls-before)/10, all.refused, all.unknown,
		s.m.latest("edge-0 memory"), s.m.latest(goroutines), s.m.latest("EVT"), s.m.latest("AUDIT"))
	if away := s.w.during(time.Now(), time.Now()); away != "" {
		line += "  " + s.paint("33", away)
	}
	if n := len(s.w.faults()); n > 0 {
		line += "  " + s.paint("31", fmt.Sprint(n, " faults"))
	}
	fmt.Println(line)
	return calls
}

func (w *world) counts() map[string]tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]tally{}
	for kind, t := range w.tallies {
		all[kind] = *t
	}
	return all
}

// summary is a table of all calls, one of all that was measured, and the faults.
func (s *screen) summary() {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\ncalls\tok\trefused\tunknown\trepeated\t")
	all := s.w.counts()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		n := all[kind]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t\n", kind, n.ok, n.refused, n.unknown, n.retried)
	}
	_ = t.Flush()
	fmt.Fprintln(t, "\nmeasured\tfrom\tto\tverdict\t")
	for _, m := range s.m.all {
		before, after, judged, flat := m.growth()
		verdict := map[[2]bool]string{{true, true}: "flat", {true, false}: "GROWS", {false, true}: "-"}[[2]bool{judged, flat}]
		fmt.Fprintf(t, "%s\t%.1f\t%.1f %s\t%s\t\n", m.name, before, after, m.unit, verdict)
	}
	_ = t.Flush()
	fmt.Printf("\n%d outages\n", len(s.w.outages))
	for _, o := range s.w.outages {
		fmt.Printf("%s to %s  %s\n", o.began.Format(time.TimeOnly), o.ended.Format(time.TimeOnly), o.what)
	}
	if n := s.w.stands; n > 0 {
		fmt.Printf("%d times something stood still by itself; a call may have been refused then\n", n)
	}
	for _, o := range s.w.still {
		fmt.Printf("%s to %s  %s\n", o.began.Format(time.TimeOnly), o.ended.Format(time.TimeOnly), o.what)
	}
	for _, f := range s.w.faults() {
		fmt.Println(s.paint("31", fmt.Sprintf("FAULT %s: %d times", f.what, f.times)))
		for _, example := range f.examples {
			fmt.Println("     ", example)
		}
	}
	if len(s.w.faults()) == 0 {
		fmt.Println(s.paint("32", "nothing lost, nothing twice, nothing refused, nothing grown"))
	}
}
