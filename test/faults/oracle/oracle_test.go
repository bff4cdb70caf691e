package oracle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/ledger"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func call(kind history.Kind, key string, answers ...caller.Answer) history.Call {
	c := history.Call{Kind: kind, Door: "rest", Key: key, Began: noon, Ended: noon.Add(time.Second)}
	for _, a := range answers {
		c.Tries = append(c.Tries, history.Try{Edge: "e", Began: noon, Ended: c.Ended, Answer: a})
	}
	return c
}

var (
	no      = caller.Answer{Reason: "unavailable", Executed: "no"}
	unknown = caller.Answer{Reason: "peer_lost", Executed: "unknown"}
	held    = caller.Answer{Reason: "approval_required", Executed: "no", Approval: "A"}
)

func ok(run string) caller.Answer { return caller.Answer{OK: true, Text: `{"run":"` + run + `"}`} }

func ran(key, run string) ledger.Run {
	return ledger.Run{ID: run, Key: key, Call: "call-" + run, Tool: "append", Began: noon, At: noon}
}

// rows are the two of a call that ran.
func rows(key, run string) []oracle.Row {
	begun := oracle.Row{Call: "call-" + run, Time: noon, Name: "append", Edge: "e", Outcome: "begun", Executed: "unknown"}
	begun.Arguments.Key = key
	ended := begun
	ended.Outcome, ended.Executed = "ok", "yes"
	return []oracle.Row{begun, ended}
}

// good is a run in which everything is as it has to be.
func good() oracle.Run {
	return oracle.Run{
		Calls: []history.Call{
			call(history.Read, "", no, ok("")),
			call(history.Write, "a", ok("1")),
			call(history.Write, "b", no),
			call(history.Write, "c", unknown),
			call(history.Keyed, "d", unknown, ok("4"), ok("4")),
			call(history.Approval, "e", held, ok("5"), caller.Answer{Reason: "unknown_approval", Executed: "no"}),
			call(history.Stored, "faults:f", ok("")),
			call(history.Impatient, "g", unknown),
		},
		Ran:   []ledger.Run{ran("a", "1"), ran("d", "4"), ran("e", "5")},
		Trail: slices.Concat(rows("a", "1"), rows("d", "4"), rows("e", "5")),
		Kept:  map[string]bool{"faults:f": true},
	}
}

// Each oracle finds what it is there for, and none finds anything in a good run.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(*oracle.Run)
		want  oracle.Name
	}{
		"nothing": {func(*oracle.Run) {}, ""},
		"an acknowledged call did not run": {func(r *oracle.Run) {
			r.Calls = append(r.Calls, call(history.Write, "x", ok("9")))
		}, oracle.Lost},
		"a resource is not there": {func(r *oracle.Run) { r.Kept = nil }, oracle.Lost},
		"a call ran twice": {func(r *oracle.Run) {
			r.Ran, r.Trail = append(r.Ran, ran("c", "8"), ran("c", "9")), slices.Concat(r.Trail, rows("c", "8"), rows("c", "9"))
		}, oracle.Doubled},
		"it ran long after its client had left": {func(r *oracle.Run) {
			late := ran("g", "9")
			late.Began, late.At = noon, noon.Add(10*time.Second)
			r.Ran, r.Trail = append(r.Ran, late), append(r.Trail, rows("g", "9")...)
		}, oracle.Late},
		"it began long after, although the instance was hung": {func(r *oracle.Run) {
			late := ran("g", "9")
			late.Began, late.At = noon.Add(9*time.Second), noon.Add(10*time.Second)
			r.Ran, r.Trail = append(r.Ran, late), append(r.Trail, rows("g", "9")...)
			r.ServicesKilled = []oracle.Span{{From: noon, To: noon.Add(time.Minute)}}
		}, oracle.Late},
		"nobody asked for it": {func(r *oracle.Run) {
			r.Ran, r.Trail = append(r.Ran, ran("x", "9")), append(r.Trail, rows("x", "9")...)
		}, oracle.Unasked},
		"nobody agreed to it": {func(r *oracle.Run) {
			r.Calls[5].Tries = r.Calls[5].Tries[1:]
		}, oracle.Unasked},
		"executed: no, and it ran": {func(r *oracle.Run) {
			r.Ran, r.Trail = append(r.Ran, ran("b", "9")), append(r.Trail, rows("b", "9")...)
		}, oracle.Executed},
		"executed: no of a key that has its answer": {func(r *oracle.Run) {
			r.Calls[4].Tries = append(r.Calls[4].Tries, history.Try{Answer: no})
		}, oracle.Executed},
		"executed: no of a resource that is there": {func(r *oracle.Run) {
			r.Calls[6].Tries = []history.Try{{Answer: no}}
		}, oracle.Executed},
		"executed: yes, and it did not run": {func(r *oracle.Run) {
			r.Calls[3].Tries[0].Executed = "yes"
		}, oracle.Executed},
		"the answer is another one's":           {func(r *oracle.Run) { r.Calls[4].Tries[2] = history.Try{Answer: ok("5")} }, oracle.Answer},
		"a read fails":                          {func(r *oracle.Run) { r.Calls[0].Tries = r.Calls[0].Tries[:1] }, oracle.Refused},
		"no beginning in the trail":             {func(r *oracle.Run) { r.Trail = r.Trail[1:] }, oracle.Begun},
		"no end in the trail":                   {func(r *oracle.Run) { r.Trail = append(r.Trail[:1:1], r.Trail[2:]...) }, oracle.Ended},
		"two ends in the trail":                 {func(r *oracle.Run) { r.Trail = append(r.Trail, r.Trail[1]) }, oracle.Twice},
		"the trail says no":                     {func(r *oracle.Run) { r.Trail[1].Executed = "no" }, oracle.Untrue},
		"the trail says ok of what did not run": {func(r *oracle.Run) { r.Trail = append(r.Trail, rows("b", "9")...) }, oracle.Untrue},
		"a session is not known": {func(r *oracle.Run) {
			r.Calls = append(r.Calls, call(history.Session, "s", caller.Answer{Reason: "session", Executed: "no"}))
		}, oracle.Forgotten},
		"two beginnings in the trail": {func(r *oracle.Run) { r.Trail = append(r.Trail, r.Trail[0]) }, oracle.Twice},
		"an end without a beginning, of what did not run": {func(r *oracle.Run) {
			r.Trail = append(r.Trail, rows("b", "9")[1])
		}, oracle.Untrue},
		"an acknowledged call has no good end": {func(r *oracle.Run) { r.Trail[1].Outcome = "unavailable" }, oracle.Ended},
		"no end in the trail, of a call at an edge that died": {func(r *oracle.Run) {
			r.Trail = append(r.Trail[:1:1], r.Trail[2:]...)
			r.EdgesDied = []oracle.Span{{From: noon, To: noon.Add(time.Second)}}
		}, ""},
		"no end in the trail, of a call at an edge that died later": {func(r *oracle.Run) {
			r.Trail = append(r.Trail[:1:1], r.Trail[2:]...)
			r.EdgesDied = []oracle.Span{{From: noon.Add(time.Minute), To: noon.Add(time.Hour)}}
		}, oracle.Ended},
		"a call with a key fails while a service is away": {func(r *oracle.Run) {
			r.Calls[4].Tries = r.Calls[4].Tries[:1]
			r.ServicesKilled = []oracle.Span{{From: noon, To: noon.Add(time.Minute)}}
		}, oracle.Refused},
		"a deleted resource is there": {func(r *oracle.Run) {
			r.Calls = append(r.Calls, call(history.Changed, "faults:f", ok("")))
		}, oracle.Lost},
		"a task did not end": {func(r *oracle.Run) {
			task := call(history.Task, "t", ok("T"))
			task.Broken = "it is working"
			r.Calls = append(r.Calls, task)
		}, oracle.Forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good()
			c.plant(&r)
			found := oracle.Check(r)
			if c.want == "" && len(found) > 0 {
				t.Errorf("a good run has %v", found)
			}
			if c.want != "" && !slices.ContainsFunc(found, func(f oracle.Finding) bool { return f.Oracle == c.want }) {
				t.Errorf("found %v, and not %q", found, c.want)
			}
		})
	}
}

// A strict run excuses a try that fails while a part is away, and a silence while the machine stands
// still.
func TestStrict(t *testing.T) {
	t.Parallel()
	then := []oracle.Span{{From: noon, To: noon.Add(time.Minute)}}
	later := []oracle.Span{{From: noon.Add(time.Minute), To: noon.Add(time.Hour)}}
	broken := caller.Answer{Reason: "internal", Executed: "unknown"}
	for name, c := range map[string]struct {
		kind        history.Kind
		answers     []caller.Answer
		away, still []oracle.Span
		wrong       bool
	}{
		"a refusal":                             {history.Write, []caller.Answer{no}, nil, nil, true},
		"a refusal that is repeated":            {history.Read, []caller.Answer{no, ok("")}, nil, nil, true},
		"a refusal that is repeated with a key": {history.Changed, []caller.Answer{no, ok("")}, nil, nil, false},
		"a refusal with a key in the end":       {history.Changed, []caller.Answer{ok(""), no}, nil, nil, true},
		"a refusal while something is away":     {history.Write, []caller.Answer{no}, then, nil, false},
		"a refusal before something is away":    {history.Write, []caller.Answer{no}, later, nil, true},
		"a refusal while the machine is still":  {history.Write, []caller.Answer{no}, nil, then, false},
		"a refusal before the machine is still": {history.Write, []caller.Answer{no}, nil, later, true},
		"a failure that no silence explains":    {history.Write, []caller.Answer{broken}, nil, then, true},
		"a held call":                           {history.Approval, []caller.Answer{held}, nil, nil, false},
		"a held call that is approved twice":    {history.Approval, []caller.Answer{held, ok("1"), no}, nil, nil, false},
		"a client that leaves":                  {history.Impatient, []caller.Answer{unknown}, nil, nil, false},
	} {
		r := oracle.Run{Strict: true, Away: c.away, Still: c.still, Calls: []history.Call{call(c.kind, "", c.answers...)}}
		found := oracle.Check(r)
		if wrong := slices.ContainsFunc(found, func(f oracle.Finding) bool { return f.Oracle == oracle.Refused }); wrong != c.wrong {
			t.Errorf("%s: found %v", name, found)
		}
	}
}
