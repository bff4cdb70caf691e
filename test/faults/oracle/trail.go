package oracle

import (
	"slices"
	"strings"
	"time"
)

// Row is one event of the audit trail.
type Row struct {
	Call      string    `json:"call"`
	Time      time.Time `json:"time"`
	Name      string    `json:"name"`
	Edge      string    `json:"edge"`
	Outcome   string    `json:"outcome"`
	Executed  string    `json:"executed"`
	Arguments struct {
		Key string `json:"key"`
	} `json:"arguments"`
}

// Counted are the tools whose executions the ledger has and counts.
var Counted = []string{"append", "approved", "steps"}

func contains(text, part string) bool { return strings.Contains(text, part) }

// trail requires of each effect a beginning and an end, and of each end that it is true.
// Where the edge died there may be no end.
func (c *checker) trail() {
	begun, ends := map[string]Row{}, map[string]Row{}
	for _, r := range c.Trail {
		if r.Arguments.Key == "" {
			continue // it counts calls that were refused alike, and is named as the last of them
		}
		if r.Outcome == "input_required" {
			continue // nothing ran, and its end is another row
		}
		into := ends
		if r.Outcome == "begun" {
			into = begun
		}
		// Each edge that tells a client of a call's end records what it knows of it.
		if old, twice := into[r.Call]; twice {
			if old.Edge == r.Edge || old.Executed == "yes" && r.Executed == "no" || old.Executed == "no" && r.Executed == "yes" {
				c.find(Twice, "%s of %s, %s and %s", r.Call, r.Name, old.Outcome, r.Outcome)
			}
			if r.Executed == "unknown" {
				continue
			}
		}
		into[r.Call] = r
	}
	happened := map[string]bool{}
	for _, e := range c.Ran {
		if !slices.Contains(Counted, e.Tool) {
			continue
		}
		happened[e.Call] = true
		began, ok := begun[e.Call]
		if !ok {
			c.find(Begun, "%s, call %s", e.Key, e.Call)
			continue
		}
		switch end, ok := ends[e.Call]; {
		case !ok && !c.edgeDied(began.Time, e.At):
			c.find(Ended, "%s, call %s, begun at %s", e.Key, e.Call, began.Time.Format(clock))
		case ok && end.Executed == "no":
			c.find(Untrue, "%s, call %s ran, and the trail says %s, executed no", e.Key, e.Call, end.Outcome)
		}
	}
	recorded := map[string]bool{}
	for id, end := range ends {
		if slices.Contains([]string{"ok", "replayed"}, end.Outcome) {
			recorded[end.Arguments.Key] = true
		}
		if end.Outcome == "ok" && slices.Contains(Counted, end.Name) && !happened[id] {
			c.find(Untrue, "%s, call %s: the trail says that it ran", end.Arguments.Key, id)
		}
	}
	for _, call := range c.Calls {
		if call.OK() && len(c.ran[call.Key]) > 0 && slices.Contains(Counted, c.ran[call.Key][0].Tool) && !recorded[call.Key] && !c.edgeDied(call.Began, call.Ended) {
			c.find(Ended, "%s: acknowledged", name(call))
		}
	}
}

// edgeDied reports whether an edge died before it can have recorded what ended then.
func (c *checker) edgeDied(began, ended time.Time) bool {
	return slices.ContainsFunc(c.EdgesDied, func(s Span) bool { return s.Overlaps(began, ended.Add(2*time.Second)) })
}
