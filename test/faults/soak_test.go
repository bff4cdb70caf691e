package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// Series that grow are found, and those that have stopped growing are not.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value  func(minute float64) float64
		judged bool
		flat   bool
		length int
	}{
		"a leak":            {func(m float64) float64 { return 100 + 4*m }, true, false, 60},
		"a warm-up":         {func(m float64) float64 { return min(200, 10*m) }, true, true, 60},
		"a saw":             {func(m float64) float64 { return 100 + float64(int(m)%5)*10 }, true, true, 60},
		"too short to tell": {func(m float64) float64 { return 100 * m }, false, true, 4},
	} {
		s := &series{name: name, from: time.Duration(c.length) * time.Minute / 3, room: 10}
		for i := range c.length * 12 {
			s.points = append(s.points, point{float64(i * 5), c.value(float64(i) / 12)})
		}
		if _, _, judged, flat := s.growth(); judged != c.judged || flat != c.flat {
			t.Errorf("%s: judged %v, flat %v", name, judged, flat)
		}
		r := &result{}
		(&measuring{all: []*series{s, {name: goroutines, points: []point{{0, 1}}}, {name: "AUDIT", points: []point{{0, 1}}}}}).judge(r)
		if found := len(r.findings) > 0; found == c.flat {
			t.Errorf("%s: found %v", name, r.findings)
		}
	}
	r := &result{}
	(&measuring{all: []*series{{name: "EVT", most: 9, points: []point{{0, 10}}}}}).judge(r)
	for _, want := range []string{"never measured", "EVT is full"} {
		if !slices.ContainsFunc(r.findings, func(f oracle.Finding) bool { return f.Oracle == oracle.Grown && strings.Contains(f.Text, want) }) {
			t.Errorf("%q is not found: %v", want, r.findings)
		}
	}
}

// A part that stands still again before it has recovered has one outage.
func TestStood(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{}
	for _, s := range []time.Duration{0, 5 * time.Second, time.Minute} {
		w.stood("the disk", at.Add(s), at.Add(s+time.Second))
	}
	if want := []oracle.Span{{From: at, To: at.Add(6*time.Second + notice)}, {From: at.Add(time.Minute), To: at.Add(61*time.Second + notice)}}; !slices.Equal(w.spans(&w.still), want) {
		t.Errorf("%v, not %v", w.still, want)
	}
}
