// Package doors makes the same calls through every door, and requires that what
// comes of them is the same: the result, what ran, what the audit trail says, what
// the limits were asked, and of an error its class, in the words that
// docs/reference/errors.md has for the door.
package doors

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var doors = slices.Concat(mcpDoors, plainDoors, grpcDoors)

// anything stands for a fact that differs from call to call.
const anything = "…"

// testcase is a call, and the outcome that it must have through every door.
type testcase struct {
	name string
	// tool and its arguments, with KEY for the text that finds the call again.
	tool, arguments string
	token           string // ada's if empty
	want            outcome
	// schema: the arguments fail the tool's.
	schema bool
	at     place
	// runs is how often the tool ran.
	runs int
	// rows are the outcomes in the audit trail, empty if it is not a call; unfound says that they
	// name no service.
	rows    string
	unfound bool
	// not are doors that the case is not for.
	not []door
	// asked is how often a limit was asked, once if 0; unasked: never.
	asked   int
	unasked bool
}

// secretly are arguments that must not be in the trail as they are.
const secretly = `{"key":"KEY","password":"hunter2"}`

var cases = []testcase{
	{name: "a result", tool: "plain", arguments: secretly, want: outcome{text: "done\nü"}, runs: 1, rows: "begun ok"},
	{name: "a result without effect", tool: "look", arguments: secretly, want: outcome{text: "done\nü"}, runs: 1, rows: "ok"},
	{name: "a structured result", tool: "structured", arguments: secretly,
		want: outcome{text: `{"said":"done","n":9007199254740993}`, structured: `{"said":"done","n":9007199254740993}`}, runs: 1, rows: "begun ok"},
	{name: "a large result", tool: "big", arguments: `{"bytes":131072,"key":"KEY"}`,
		want: outcome{text: strings.Repeat("x", 128<<10)}, runs: 1, rows: "begun ok"},
	{name: "the tool's own failure", tool: "fail", arguments: secretly, want: outcome{text: "failed on purpose: ", isError: true}, runs: 1, rows: "begun tool_error"},
	{name: "a defect", tool: "panic", arguments: secretly, want: outcome{reason: "internal", executed: "unknown"}, runs: 1, rows: "begun internal"},
	{name: "no time left", tool: "stuck", arguments: secretly, want: outcome{reason: "deadline_exceeded", executed: "unknown"}, runs: 1, rows: "begun deadline_exceeded"},
	{name: "an unknown tool", tool: "nope", arguments: secretly, want: outcome{reason: "unknown_tool", executed: "no"}, rows: "unknown_tool", unfound: true},
	{name: "arguments that fail the schema", tool: "plain", arguments: `{"key":"KEY","password":1}`, schema: true,
		want: outcome{text: "Invalid arguments: /password: got number, want string", reason: "invalid_params", executed: "no",
			data: map[string]string{"parameter": "password", "detail": "got number, want string"}}, rows: "invalid_params"},
	{name: "arguments that are no object", tool: "plain", arguments: `["KEY"]`, want: outcome{reason: "invalid_params", executed: "no"}, unasked: true},
	{name: "a member twice", tool: "plain", arguments: `{"key":"KEY","key":"KEY"}`, want: outcome{reason: "parse_error", executed: "no"}, at: atMessage, unasked: true},
	{name: "arguments that are nested too deep", tool: "plain", arguments: `{"key":"KEY","a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
		want: outcome{reason: "invalid_request", executed: "no"}, at: atMessage, unasked: true},
	{name: "a string that is too long", tool: "plain", arguments: `{"key":"KEY","a":"` + strings.Repeat("a", 600<<10) + `"}`,
		want: outcome{reason: "too_large", executed: "no"}, at: atMessage, unasked: true},
	{name: "a message that is too large", tool: "plain", arguments: `{"key":"KEY","a":["` + strings.Repeat("a", 500<<10) + `","` + strings.Repeat("a", 500<<10) + `","` + strings.Repeat("a", 500<<10) + `"]}`,
		want: outcome{reason: "too_large", executed: "no"}, at: atBody, unasked: true},
	{name: "nobody's token", tool: "plain", arguments: secretly, token: nobody, want: outcome{reason: "unauthenticated", executed: "no"},
		at: atIdentity, unasked: true},
	{name: "somebody who may not", tool: "private", arguments: secretly, want: outcome{reason: "forbidden", executed: "no"}, rows: "forbidden"},
	{name: "too often", tool: "often", arguments: secretly, want: outcome{reason: "rate_limited", executed: "no", retryMs: 1500}, rows: "rate_limited"},
	{name: "too many at once", tool: "crowded", arguments: secretly, want: outcome{reason: "overloaded", executed: "no", retryMs: 1000}, rows: "overloaded"},
	{name: "a tool that asks", tool: "ask", arguments: secretly, runs: 2, asked: 2, not: mcpDoors,
		want: outcome{reason: "input_required", executed: "no", data: map[string]string{"elicitation": anything, "expires": anything, "requests": anything}}, rows: "begun input_required begun ok"},
	{name: "a tool that asks who cannot be asked", tool: "ask", arguments: secretly, runs: 1, not: slices.Concat(plainDoors, grpcDoors),
		want: outcome{reason: "missing_capability", executed: "no", data: map[string]string{"requiredCapabilities": anything}}, rows: "begun missing_capability"},
	{name: "a tool that needs approval", tool: "approved", arguments: secretly, runs: 1, asked: 2,
		want: outcome{reason: "approval_required", executed: "no", data: map[string]string{"approval": anything, "approver": "caller", "expires": anything}}, rows: "approval_required begun ok"},
}

func TestDoors(t *testing.T) {
	t.Parallel()
	d, w := readDocument(t), newWorld(t)

	// First and at once, since edges forget a dead service after some seconds.
	w.cutOff(t)
	gone := testcase{name: "a service that died", tool: "gone", arguments: secretly, want: outcome{reason: "unavailable", executed: "no"}, rows: "begun unavailable"}
	t.Run("dead", func(t *testing.T) { everyDoor(t, d, w, gone) })
	t.Run("call", func(t *testing.T) { everyDoor(t, d, w, cases...) })
	t.Run("reason", func(t *testing.T) { everyDoor(t, d, w, everyReason(d)...) })
	t.Run("audit", func(t *testing.T) { w.recorded(t, append([]testcase{gone}, cases...)) })
	t.Run("without a trail", func(t *testing.T) {
		w.loseTrail(t)
		everyDoor(t, d, w,
			testcase{name: "effect", tool: "plain", arguments: `{"key":"untracked KEY"}`, want: outcome{reason: "unavailable", executed: "no", retryMs: 1000}},
			testcase{name: "no effect", tool: "look", arguments: `{"key":"untracked KEY"}`, want: outcome{text: "done\nü"}, runs: 1},
		)
	})
}

// everyDoor makes calls through every door.
func everyDoor(t *testing.T, d document, w *world, cases ...testcase) {
	for _, c := range cases {
		for _, r := range doors {
			if r.unmet[c.at] || !c.isFor(r) {
				continue
			}
			t.Run(c.name+"/"+r.name, func(t *testing.T) {
				t.Parallel()
				c.through(t, d, w, r)
			})
		}
	}
}

func (c testcase) isFor(r door) bool {
	return !slices.ContainsFunc(c.not, func(d door) bool { return d.name == r.name })
}

// key finds the call of a case through a door again.
func (c testcase) key(r door) string {
	if strings.Contains(c.arguments, "untracked") {
		return "untracked " + c.name + ", " + r.name
	}
	return c.name + ", " + r.name
}

func (c testcase) call(r door) call {
	token := c.token
	if token == "" {
		token = ada
	}
	return call{tool: c.tool, arguments: strings.ReplaceAll(strings.ReplaceAll(c.arguments, "untracked KEY", "KEY"), "KEY", c.key(r)), token: token}
}

// through makes the call through a door.
func (c testcase) through(t *testing.T, d document, w *world, r door) {
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	call := func() outcome { return r.call(ctx, t, w, c.call(r)) }
	var got outcome
	if c.want.reason == "unavailable" && (c.want.retryMs > 0 || r.name == "envelope") { // as that refusal looks
		got = call()
	} else {
		got = w.patiently(ctx, c.key(r), c.want.reason == "unavailable", call)
	}
	c.compare(t, d, r, got)
	if got.data["approval"] != "" && c.tool == "approved" {
		c.approve(ctx, t, w, r, got.data["approval"])
	}
	if id := got.data["elicitation"]; id != "" {
		c.answer(ctx, t, w, r, id)
	}
	if n := w.ledger.Runs(c.key(r)); n != c.runs {
		t.Errorf("the tool ran %d times, want %d", n, c.runs)
	}
	asked, more := max(1, c.asked), w.repeated(c.key(r)) // of those, some are refused before
	if c.unasked {
		asked, more = 0, 0
	}
	if n := w.policy.admissions(c.key(r)); n < asked || n > asked+more {
		t.Errorf("a limit was asked %d times, want %d", n, asked)
	}
}

// compare holds what came of the call against what must.
func (c testcase) compare(t *testing.T, d document, r door, got outcome) {
	t.Helper()
	want := c.want
	if c.schema && r.modelSees {
		want = outcome{text: want.text, isError: true}
	} else if want.reason != "" {
		want.text = ""
		want.said = r.at(c.at)(d, want.reason)
		if f := d.mcp[want.reason]; f.executed != want.executed && want.reason != "unavailable" {
			t.Errorf("docs/reference/errors.md says that %s is executed %s", want.reason, f.executed)
		}
	}
	if r.silent[c.at] {
		want.reason, want.executed = "", ""
	}
	if r.lacks != nil {
		r.lacks(&want)
	}
	for name, v := range want.data {
		if v == anything && got.data[name] != "" {
			want.data = maps.Clone(want.data)
			want.data[name] = got.data[name]
		}
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got  %.500s\nwant %.500s", g, w)
	}
}

// everyReason are calls that a service ends for every reason it may have.
func everyReason(d document) []testcase {
	var cases []testcase
	for reason, f := range d.mcp {
		if ofMCP(reason) || ofEdge(reason) {
			continue
		}
		cases = append(cases, testcase{
			name: reason, tool: "refuse", arguments: `{"key":"untracked KEY","reason":"` + reason + `","executed":"` + f.executed + `"}`,
			want: outcome{reason: reason, executed: f.executed, retryMs: 2500, data: map[string]string{"approval": "A1", "version": "7"}},
		})
	}
	return cases
}

// recorded requires of the audit trail that it says of each call the same,
// whatever its door.
func (w *world) recorded(t *testing.T, all []testcase) {
	want := 0
	for _, c := range all {
		for _, r := range doors {
			if c.isFor(r) {
				want += len(c.outcomes(r))
			}
		}
	}
	byKey, n := map[string][]trail.Row{}, 0
	for deadline := time.Now().Add(answerTime); n < want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d events of %d; each call says which are missing", n, want)
			break
		}
		clear(byKey)
		n = 0
		for _, row := range w.trail(t) {
			if key := keyIn(row.Arguments); key != "" && !strings.HasPrefix(key, "untracked") {
				byKey[key] = append(byKey[key], row)
			}
		}
		for key, rows := range byKey {
			if w.repeated(key) > 0 {
				byKey[key] = taken(rows)
			}
			n += len(byKey[key])
		}
	}
	w.refused(t)
	for _, c := range all {
		for _, r := range doors {
			if !c.isFor(r) {
				continue
			}
			t.Run(c.name+"/"+r.name, func(t *testing.T) { c.recorded(t, r, byKey[c.key(r)]) })
		}
	}
}

// taken are the rows of calls that were not refused because the trail could not take them.
func taken(rows []trail.Row) []trail.Row {
	ended, refused := map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		ended[row.Call] = ended[row.Call] || row.Outcome != trail.Begun
		refused[row.Call] = refused[row.Call] || row.Outcome == string(fault.Unavailable)
	}
	return slices.DeleteFunc(rows, func(row trail.Row) bool { return !ended[row.Call] || refused[row.Call] })
}

// refused checks that every door has recorded who nobody knows.
func (w *world) refused(t *testing.T) {
	t.Helper()
	missing := map[string]bool{}
	for _, r := range doors {
		if !r.unmet[atIdentity] {
			missing[r.kind] = true
		}
	}
	for _, row := range w.trail(t) {
		if row.Method == gateway.MethodAuthenticate && row.Outcome == "unauthenticated" && row.Executed == "no" && row.Principal == "" {
			delete(missing, row.Door)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not recorded who was refused at %v", missing)
	}
}

// A person who starts a server over stdio with bad credentials is told so.
func TestStdioOfNobody(t *testing.T) {
	t.Parallel()
	w := &world{nats: bustest.Server(t), policy: &policy{full: gateway.NewInFlight(0), asked: map[string]int{}}}
	servicetest.Join(t, bustest.Connect(t, w.nats), w.service())
	e := w.join(t, local(nobody))
	var out bytes.Buffer
	err := stdio.New(stdio.Config{Server: e.Server(), In: strings.NewReader("{}\n"), Out: &out}).Run(t.Context())
	if !fault.Is(err, fault.Unauthenticated) || out.Len() > 0 {
		t.Errorf("%v, said %q", err, out.String())
	}
}

// redacted matches text that the trail must not contain unchanged.
var redacted = regexp.MustCompile(`"password":[^,}]+`)

// outcomes returns the outcomes of the rows of a call through a door.
func (c testcase) outcomes(r door) []string {
	return strings.Fields(c.rows)
}

func (c testcase) recorded(t *testing.T, r door, rows []trail.Row) {
	var got []string
	slices.SortFunc(rows, func(a, b trail.Row) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	for _, row := range rows {
		got = append(got, row.Outcome)
	}
	if !slices.Equal(got, c.outcomes(r)) {
		t.Fatalf("recorded are %v, want %v", got, c.outcomes(r))
	}
	for _, row := range rows {
		want := trail.Event{
			Tenant: "acme", Principal: "ada", Door: r.kind, Method: "tools/call", Name: c.tool, Service: serviceName,
			Arguments: []byte(redacted.ReplaceAllString(c.call(r).arguments, `"password":"***REDACTED***"`)),
			Outcome:   row.Outcome, Executed: "yes",
		}
		switch {
		case c.token == nobody:
			want.Tenant, want.Principal = "", ""
		case c.tool == "gone":
			want.Service = "gone"
		}
		if c.unfound {
			want.Service = ""
		}
		switch row.Outcome {
		case "begun":
			want.Executed = "unknown"
		case c.want.reason:
			want.Executed = c.want.executed
		}
		is := trail.Event{
			Tenant: row.Tenant, Principal: row.Principal, Door: row.Door, Method: row.Method, Name: row.Name, Service: row.Service,
			Arguments: row.Arguments, ArgumentsNote: row.ArgumentsNote, Outcome: row.Outcome, Executed: row.Executed, Delayed: row.Delayed,
		}
		if g, w := fmt.Sprintf("%+v", is), fmt.Sprintf("%+v", want); g != w {
			t.Errorf("got  %s\nwant %s", g, w)
		}
		if len(row.ArgumentsDigest) != 32 || row.Call == "" || row.Time.IsZero() {
			t.Errorf("%+v", row)
		}
	}
}
