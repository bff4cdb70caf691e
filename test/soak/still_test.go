package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookEvery is how often is looked whether the machine stands still, and stillTime what
	// counts as that: an edge refuses a call when NATS was silent for 250 ms.
	lookEvery = 50 * time.Millisecond
	stillTime = 200 * time.Millisecond
)

// watch notes when the machine stood still: this process was not run, a write to the disk took
// long, or somebody stopped a process of the fleet. A call that is refused then was not refused
// without a reason. It asks nothing of Busbar or NATS, so their own slowness does not count as an
// excuse.
func (w *world) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	look := func(what string, do func()) {
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				do()
				if took := time.Since(began) - lookEvery; took >= stillTime {
					w.stood(what, began, time.Now())
				}
			}
		})
	}
	look("the machine", func() { time.Sleep(lookEvery) })
	look("the disk", func() {
		time.Sleep(lookEvery)
		w.sync()
	})
	all.Go(func() {
		for began := time.Now(); pause(ctx, int(lookEvery.Milliseconds())) == nil; began = time.Now() {
			for _, p := range w.f.all {
				if stopped(p.pid()) && w.during(began, time.Now()) == "" {
					w.stood(p.name, began.Add(-lookEvery), time.Now())
				}
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// sync writes a little to the disk of the fleet.
func (w *world) sync() {
	file, err := os.OpenFile(filepath.Join(w.f.dir, "synced"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	_, _ = file.WriteString("synced")
	_ = file.Sync()
	_ = file.Close()
}

// stopped reports whether a process was stopped by a signal.
func stopped(pid int) bool {
	if pid == 0 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && strings.HasPrefix(rest, "T")
}

// stood notes that something stood still. A second one within the time to recover is the same
// outage.
func (w *world) stood(what string, began, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stands++
	if n := len(w.still); n > 0 && !began.After(w.still[n-1].ended) {
		w.still[n-1].ended = ended.Add(notice)
		if began.Before(w.still[n-1].began) {
			w.still[n-1].began = began
		}
		return
	}
	w.still = append(w.still, outage{what: what + " stood still", began: began, ended: ended.Add(notice)})
}

// silences are the reasons of calls that fail because something stood still.
var silences = []string{"unavailable", "peer_lost", "deadline_exceeded", "overloaded", "connection"}

// excused names what was away or stood still when a call failed for a reason; empty if the call had
// to succeed.
func (w *world) excused(reason string, began, ended time.Time) string {
	if away := w.during(began, ended); away != "" || !slices.Contains(silences, reason) {
		return away
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return overlaps(w.still, began, ended)
}
