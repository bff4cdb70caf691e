package soak

import (
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
)

// TestFaults plants each fault that a soak must notice into a good soak.
func TestFaults(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type story struct {
		w    *world
		ran  effects
		rows []row
	}
	// good is a write that succeeded, one that was refused while an edge was
	// away, and one that the same edge died in.
	good := func() story {
		w := newWorld(nil, 1)
		w.outages = []outage{{what: "edge-1 is killed", began: at, ended: at.Add(10 * time.Second)}}
		w.wanted = []wanted{
			{key: "a", kind: "rest write", certainty: once, ended: at.Add(-time.Minute)},
			{key: "b", kind: "rest write", certainty: never, ended: at},
			{key: "c", kind: "rest write", certainty: maybe, ended: at},
		}
		w.refused = []refusal{{"rest write", at.Add(time.Second), at.Add(2 * time.Second), caller.Answer{Reason: "unavailable", Executed: "no"}}}
		rows := []row{{Call: "1", Outcome: "begun", Time: at.Add(-time.Minute)}, {Call: "1", Outcome: "ok", Executed: "yes"}, {Call: "3", Outcome: "begun", Time: at}, {Call: "1", Outcome: "rate_limited", Executed: "no", Repeated: 2}}
		for i := range rows {
			rows[i].Name, rows[i].Arguments.Key = "append", map[string]string{"1": "a", "3": "c"}[rows[i].Call]
		}
		return story{w, effects{"a": {"1"}, "c": {"3"}}, rows}
	}
	for what, plant := range map[string]func(*story){
		"":                                                    func(*story) {},
		"an effect ran twice":                                 func(s *story) { s.ran["c"] = []string{"3", "3"} },
		"an acknowledged effect is lost":                      func(s *story) { s.w.wanted[1].certainty = once; s.rows = append(s.rows, recorded("b")) },
		"what was said not to have run has run":               func(s *story) { s.w.wanted[2].certainty = never },
		"a call with a key does not succeed":                  func(s *story) { s.w.refused[0].kind = "rest keyed" },
		"a call failed although nothing was away":             func(s *story) { s.w.outages[0].ended = at },
		"an effect has no beginning in the trail":             func(s *story) { s.rows = s.rows[:2] },
		"an effect has no end in the trail":                   func(s *story) { s.rows[2].Time = at.Add(-time.Hour) },
		"an effect has an end in the trail and no beginning":  func(s *story) { s.rows[0].Call = "9"; s.ran["a"] = nil; s.w.wanted[0].certainty = maybe },
		"the trail has a call twice":                          func(s *story) { s.rows = append(s.rows, s.rows[1]) },
		"the trail says that it did not run":                  func(s *story) { s.rows[1].Executed = "no" },
		"the trail says that it ran, and it did not":          func(s *story) { s.ran["a"] = nil; s.w.wanted[0].certainty = maybe },
		"an acknowledged effect has no good end in the trail": func(s *story) { s.rows[1].Outcome = "unavailable" },
	} {
		s := good()
		plant(&s)
		s.w.judgeAnswers(s.ran)
		s.w.judgeTrail(s.ran, s.rows)
		found := s.w.faults()
		if what == "" && len(found) > 0 || what != "" && (len(found) != 1 || found[0].what != what) {
			t.Errorf("%q is found as %+v", what, found)
		}
	}
}

// TestStoodStill excuses a refusal where the machine stood still, and nothing else.
func TestStoodStill(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		plant func(*world)
		want  string
	}{
		"a refusal in it": {func(w *world) {
			w.refused = []refusal{{"rest write", at.Add(time.Second), at.Add(2 * time.Second), caller.Answer{Reason: "unavailable", Executed: "no"}}}
		}, ""},
		"a refusal long after it": {func(w *world) {
			w.refused = []refusal{{"rest write", at.Add(time.Minute), at.Add(time.Minute), caller.Answer{Reason: "unavailable", Executed: "no"}}}
		}, "a call failed although nothing was away"},
		"a refusal in it that no silence explains": {func(w *world) {
			w.refused = []refusal{{"rest write", at.Add(time.Second), at.Add(2 * time.Second), caller.Answer{Reason: "internal", Executed: "unknown"}}}
		}, "a call failed although nothing was away"},
		"a keyed call in it that never succeeds": {func(w *world) {
			w.refused = []refusal{{"rest keyed", at.Add(time.Second), at.Add(2 * time.Second), caller.Answer{Reason: "unavailable", Executed: "no"}}}
		}, "a call with a key does not succeed"},
		"an effect that is lost in it": {func(w *world) {
			w.wanted = []wanted{{key: "a", kind: "rest write", certainty: once, ended: at.Add(time.Second)}}
		}, "an acknowledged effect is lost"},
	} {
		w := newWorld(nil, 1)
		w.stood("the machine", at, at.Add(2*time.Second))
		c.plant(w)
		w.judgeAnswers(effects{})
		found := w.faults()
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].what != c.want) {
			t.Errorf("%s is found as %+v, not as %q", name, found, c.want)
		}
	}
}

// recorded is the good end of a call with a key.
func recorded(key string) row {
	r := row{Call: "of " + key, Name: "append", Outcome: "replayed", Executed: "yes"}
	r.Arguments.Key = key
	return r
}

// TestGrowth distinguishes series that grow from series that have stopped growing.
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
		s := series{from: time.Duration(c.length) * time.Minute / 3, room: 10}
		for i := range c.length * 12 {
			s.points = append(s.points, point{float64(i * 5), c.value(float64(i) / 12)})
		}
		if _, _, judged, flat := s.growth(); judged != c.judged || flat != c.flat {
			t.Errorf("%s: judged %v, flat %v", name, judged, flat)
		}
	}
}
