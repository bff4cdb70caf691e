package soak

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// row is one event of the audit trail.
type row struct {
	Call      string    `json:"call"`
	Time      time.Time `json:"time"`
	Name      string    `json:"name"`
	Edge      string    `json:"edge"`
	Outcome   string    `json:"outcome"`
	Executed  string    `json:"executed"`
	Arguments struct {
		Key string `json:"key"`
	} `json:"arguments"`
	// Repeated is how many refusals like the call's the row counts; 0 for a call itself.
	Repeated int `json:"repeated"`
}

// inLedger are the tools with effects in the ledger.
var inLedger = []string{"append", "approved", "steps"}

// askTime is how long the command is tried again: an edge refuses it, truthfully, while NATS
// or a service stands still.
const askTime = 3 * time.Minute

// busbar runs the command, until that succeeds, and hands its output on.
func (w *world) busbar(ctx context.Context, read func(io.Reader), args ...string) error {
	var err error
	if !eventually(ctx, askTime, func() bool { err = w.busbarOnce(ctx, read, args...); return err == nil }) {
		w.fault("busbar fails", "%v: %v", args, err)
	}
	return err
}

func (w *world) busbarOnce(ctx context.Context, read func(io.Reader), args ...string) error {
	cmd := exec.CommandContext(ctx, w.f.edges[0].argv[0], append(args, "--url", "http://"+w.f.edges[0].web, "--timeout", "0")...)
	cmd.Env = w.f.edges[0].env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	read(out)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	return nil
}

// trail reads all events of the tools with effects in the ledger, and keeps them next to the logs.
func (w *world) trail(ctx context.Context) (rows []row, err error) {
	kept, err := os.Create(w.f.trail)
	if err != nil {
		return nil, err
	}
	defer func() { _ = kept.Close() }()
	for _, name := range inLedger {
		before := len(rows)
		err = w.busbar(ctx, func(out io.Reader) {
			rows = rows[:before] // of a try that failed
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, mib)
			for lines.Scan() {
				var r row
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					w.fault("a line of the trail cannot be read", "%v: %s", err, lines.Bytes())
				}
				rows = append(rows, r)
				_, _ = kept.Write(append(lines.Bytes(), '\n'))
			}
		}, "audit", "export", "--name", name)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// settleTime is how long the trail may take to have what is on its way to it, over a disk
// that is slow.
const settleTime = 3 * time.Minute

// settle waits until the trail has everything that is on its way: it does not grow any more, and
// lacks nothing. If it still lacks something at the end, judge reports it.
func (w *world) settle(ctx context.Context) {
	before := -1
	eventually(ctx, settleTime, func() bool {
		_ = pause(ctx, 3000)
		rows, err := w.trail(ctx)
		was := before
		before = len(rows)
		if err != nil || len(rows) != was {
			return false
		}
		ran, err := readLedger(w.f.ledger)
		return err == nil && w.tried(ran, rows)
	})
}

// tried reports whether the trail as it is now would pass; it notes nothing.
func (w *world) tried(ran effects, rows []row) bool {
	w.mu.Lock()
	try := &world{f: w.f, outages: slices.Clone(w.outages), wanted: w.wanted}
	w.mu.Unlock()
	try.judgeTrail(ran, rows)
	return len(try.faults()) == 0
}

// judge compares the answers, the executions and the trail.
func (w *world) judge(t *testing.T) {
	ran, err := readLedger(w.f.ledger)
	if err != nil {
		t.Error(err)
		return
	}
	rows, err := w.trail(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	w.judgeAnswers(ran)
	w.judgeTrail(ran, rows)
	if err := w.busbar(t.Context(), func(out io.Reader) { _, _ = io.Copy(io.Discard, out) }, "audit", "verify"); err != nil {
		w.fault("the trail does not verify", "%v", err)
	}
}

func (w *world) judgeAnswers(ran effects) {
	for _, e := range w.wanted {
		n := len(ran[e.key])
		switch {
		case n > 1:
			w.fault("an effect ran twice", "%s of %s, %d times: %s", e.key, e.kind, n, e.answer)
		case e.certainty == once && n == 0:
			w.fault("an acknowledged effect is lost", "%s of %s", e.key, e.kind)
		case e.certainty == never && n > 0:
			w.fault("what was said not to have run has run", "%s of %s: %s", e.key, e.kind, e.answer)
		}
	}
	for _, r := range w.refused {
		// Only an instance knows what ran there, and it may have died.
		if strings.HasSuffix(r.kind, " keyed") && !w.killedService(r.began, r.ended) {
			w.fault("a call with a key does not succeed", "%s: %v, at %s", r.kind, r.answer, r.began.Format(time.TimeOnly))
		}
		if w.excused(r.answer.Reason, r.began, r.ended) == "" {
			w.fault("a call failed although nothing was away", "%s: %v, at %s after %v", r.kind, r.answer, r.began.Format(time.TimeOnly), r.ended.Sub(r.began).Round(time.Millisecond))
		}
	}
}

// judgeTrail requires of each effect a beginning and an end, and of each end that
// it is true. Where the edge died there may be no end.
func (w *world) judgeTrail(ran effects, rows []row) {
	begun, ends := map[string]row{}, map[string]row{}
	for _, r := range rows {
		if r.Repeated > 0 || r.Outcome == "input_required" { // a call that asked has its end in another row
			continue
		}
		into := ends
		if r.Outcome == "begun" {
			into = begun
		}
		// Each edge that tells a client of a call's end records what it knows of it.
		if old, twice := into[r.Call]; twice {
			if old.Edge == r.Edge || old.Executed == "yes" && r.Executed == "no" || old.Executed == "no" && r.Executed == "yes" {
				w.fault("the trail has a call twice", "%s of %s, %s and %s", r.Call, r.Name, old.Outcome, r.Outcome)
			}
			if r.Executed == "unknown" {
				continue
			}
		}
		into[r.Call] = r
	}
	happened := map[string]bool{}
	for key, calls := range ran {
		for _, id := range calls {
			happened[id] = true
			began, ok := begun[id]
			if !ok {
				w.fault("an effect has no beginning in the trail", "%s, call %s", key, id)
				continue
			}
			if end, ok := ends[id]; !ok && !w.killedEdge(began.Time) {
				w.fault("an effect has no end in the trail", "%s, call %s, begun at %s", key, id, began.Time.Format(time.TimeOnly))
			} else if ok && end.Executed == "no" {
				w.fault("the trail says that it did not run", "%s, call %s: %s", key, id, end.Outcome)
			}
		}
	}
	for id, end := range ends {
		if _, ok := begun[id]; !ok && end.Outcome == "ok" {
			w.fault("an effect has an end in the trail and no beginning", "%s of %s, call %s", end.Arguments.Key, end.Name, id)
		} else if end.Outcome == "ok" && !happened[id] {
			w.fault("the trail says that it ran, and it did not", "%s of %s, call %s", end.Arguments.Key, end.Name, id)
		}
	}
	// Acknowledged effects are found again by their arguments.
	recorded := map[string]bool{}
	for _, r := range rows {
		if slices.Contains([]string{"ok", "replayed"}, r.Outcome) {
			recorded[r.Arguments.Key] = true
		}
	}
	for _, e := range w.wanted {
		if e.certainty == once && !recorded[e.key] && !w.killedEdge(e.ended) {
			w.fault("an acknowledged effect has no good end in the trail", "%s of %s", e.key, e.kind)
		}
	}
}
