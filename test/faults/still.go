package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

const (
	// lookEvery is how often the machine is watched, and stillTime is how long it has to stand still
	// to be noted: an edge refuses a call when NATS was silent for 250 ms.
	lookEvery = 50 * time.Millisecond
	stillTime = 200 * time.Millisecond
)

// outage is a time in which calls may fail. It lasts while To is zero.
type outage struct {
	what string
	oracle.Span
}

// began says that something is taken away, and returns a function that says that it is back.
func (w *world) began(what string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.outages)
	w.outages = append(w.outages, outage{what, oracle.Span{From: time.Now(), To: time.Now().Add(time.Hour)}})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outages[i].To = time.Now()
	}
}

// during says what is away at a time.
func (w *world) during(from, to time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(w.outages, func(o outage) bool { return o.Overlaps(from, to) }); i >= 0 {
		return w.outages[i].what
	}
	return ""
}

func (w *world) spans(all *[]outage) (spans []oracle.Span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range *all {
		spans = append(spans, o.Span)
	}
	return spans
}

// watch notes when the machine stands still: this process is not run, a write to the disk takes long,
// or somebody stops a process of the fleet. It asks nothing of Busbar or NATS, so their own slowness
// does not count as an excuse.
func (w *world) watch() (stop func()) {
	look := func(what string, do func()) (stop func()) {
		before := time.Now()
		return ticking(lookEvery, func(context.Context) {
			do()
			now := time.Now()
			if now.Sub(before)-lookEvery >= stillTime {
				w.stood(what, before, now)
			}
			before = now
		})
	}
	machine, disk := look("the machine", func() {}), look("the disk", func() { write(filepath.Join(w.dir, "synced")) })
	processes := ticking(lookEvery, func(context.Context) {
		for _, part := range slices.Concat(measured, killed, servers, []string{"database"}) {
			now := time.Now()
			raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.fleet.PID(part)))
			if _, state, _ := strings.Cut(string(raw), ") "); strings.HasPrefix(state, "T") && w.during(now.Add(-lookEvery), now) == "" {
				w.stood(part, now.Add(-2*lookEvery), now)
			}
		}
	})
	return func() { machine(); disk(); processes() }
}

// write writes a little to the disk.
func write(path string) {
	if file, err := os.Create(path); err == nil {
		_, _ = file.WriteString("synced")
		_ = file.Sync()
		_ = file.Close()
	}
}

// stood notes that something stood still. A second time before everything has recovered is the same
// outage.
func (w *world) stood(what string, from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.still); n > 0 && !from.After(w.still[n-1].To) {
		w.still[n-1].To = to.Add(notice)
		if from.Before(w.still[n-1].From) {
			w.still[n-1].From = from
		}
		return
	}
	w.still = append(w.still, outage{what + " stood still", oracle.Span{From: from, To: to.Add(notice)}})
}
