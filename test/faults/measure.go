package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

const (
	mib = 1 << 20
	// sampleEvery is how often everything is measured.
	sampleEvery = 5 * time.Second
	// goroutines is the series of goroutines of the edge that is never killed.
	goroutines = "edge-1 goroutines"
)

// series is one thing measured again and again.
type series struct {
	name, unit string
	// from is the time since the beginning by which it must have stopped growing; 0 if it is shown but
	// not judged.
	from time.Duration
	// room is the growth that still counts as flat.
	room float64
	// most is a bound it must stay under; 0 for none.
	most   float64
	points []point
}

type point struct{ at, value float64 }

// measuring has the measurements so far.
type measuring struct {
	w     *world
	token string // for the metrics of edges
	began time.Time

	mu  sync.Mutex
	all []*series
}

func (w *world) measure() (*measuring, error) {
	token, err := os.ReadFile(filepath.Join(w.fleet.Volume("bus"), permission.Edge, "metrics.token"))
	return &measuring{w: w, token: strings.TrimSpace(string(token)), began: time.Now()}, err
}

// add adds a point to a series.
func (m *measuring) add(s series, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.all, func(other *series) bool { return other.name == s.name })
	if i < 0 {
		i = len(m.all)
		m.all = append(m.all, &s)
	}
	m.all[i].points = append(m.all[i].points, point{time.Since(m.began).Seconds(), value})
}

// latest is the last value of a series, 0 before the first.
func (m *measuring) latest(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.all, func(s *series) bool { return s.name == name }); i >= 0 {
		return m.all[i].points[len(m.all[i].points)-1].value
	}
	return 0
}

func (m *measuring) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	from := m.w.length / 3
	kept, listed := m.streams(ctx)
	for _, part := range measured {
		s := m.w.sizes(part)
		if part == "nats-1" {
			// It has what it keeps in memory, with an index that is as large.
			s.memory -= 2 * kept
		}
		if s.files > 0 && (part != "nats-1" || listed) {
			m.add(series{name: part + " memory", unit: "MiB", from: from, room: 24}, s.memory/mib)
			m.add(series{name: part + " files", from: from, room: 32}, float64(s.files))
		}
	}
	_, body, err := caller.Request(ctx, http.MethodGet, m.w.fleet.At("edge-1", "9100"), "/metrics", "", "Authorization", "Bearer "+m.token)
	for lines := bufio.NewScanner(bytes.NewReader(body)); err == nil && lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				m.add(series{name: goroutines, from: from, room: 150}, n)
			}
		}
	}
}

// streams measures what JetStream keeps, and returns the sum, bytes.
func (m *measuring) streams(ctx context.Context) (kept float64, listed bool) {
	said, err := m.w.streamsAt(ctx, "nats-1")
	for _, s := range said {
		kept += s.State.Bytes
		to := series{name: strings.TrimPrefix(s.Name, "KV_"), unit: "MiB", from: m.w.length / 3, room: 2, most: 0.9 * max(s.Config.MaxBytes, 0) / mib}
		// A stream stops growing when it holds as much as it keeps, and a queue at once. A stream that
		// keeps messages for longer than the run grows all the time.
		if s.Config.Retention != "workqueue" && s.Name != "AUDIT" {
			to.from = max(to.from, time.Duration(s.Config.MaxAge)+time.Minute)
		}
		if to.from > m.w.length*2/3 {
			to.from = 0
		}
		m.add(to, s.State.Bytes/mib)
	}
	return kept, err == nil && len(said) > 0
}

// growth returns the medians of the first and of the last quarter of the values since the series must
// have stopped growing, and whether it has. Less than five minutes say nothing.
func (s *series) growth() (before, after float64, judged, flat bool) {
	p := slices.DeleteFunc(slices.Clone(s.points), func(p point) bool { return p.at < s.from.Seconds() })
	if len(p) < 4 {
		return 0, 0, false, true
	}
	middle := func(p []point) float64 {
		p = slices.SortedFunc(slices.Values(p), func(a, b point) int { return int(a.value*1000) - int(b.value*1000) })
		return p[len(p)/2].value
	}
	before, after = middle(p[:len(p)/4]), middle(p[len(p)-len(p)/4:])
	judged = s.from > 0 && p[len(p)-1].at-p[0].at >= 5*60
	return before, after, judged, !judged || after <= 1.25*before+s.room
}

// judge shows all series, and finds those that grew but must not, or that were never measured.
func (m *measuring) judge(r *result) {
	if m.latest(goroutines) == 0 || m.latest("AUDIT") == 0 && len(m.all) < 2*len(measured) {
		r.found(oracle.Finding{Oracle: oracle.Grown, Text: "memory, streams or goroutines were never measured"})
	}
	for _, s := range m.all {
		before, after, judged, flat := s.growth()
		verdict := "not judged"
		if judged {
			verdict = "flat"
		}
		if !flat {
			verdict = "GROWS"
			r.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("%s grows from %.1f to %.1f %s", s.name, before, after, s.unit)})
		}
		if last := s.points[len(s.points)-1].value; s.most > 0 && last > s.most {
			r.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("%s is full: %.1f %s", s.name, last, s.unit)})
		}
		r.row(s.name, "", "from %.1f to %.1f %s, %s", before, after, s.unit, verdict)
	}
}
