package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// Redelivery is the answer to redeliver: the fate of some of the events that were put
// aside.
type Redelivery struct {
	// Written counts the events that were added to the trail, Known those that the trail
	// had already.
	Written int `json:"written"`
	Known   int `json:"known"`
	// Left are the events that cannot be written; they stay in stream DLQ.
	Left []LeftEvent `json:"left"`
	// Committed are the numbers in the stream of the events that the trail has, written now or
	// before. The edge that asked deletes them there.
	Committed []uint64 `json:"committed,omitzero"`
	// Next is the parameter "after" of the next request; empty at the end.
	Next string `json:"next,omitzero"`
}

// LeftEvent is one event that stays in stream DLQ.
type LeftEvent struct {
	// Message is its number in the stream. ID is the id of the event, empty if the event
	// cannot be read.
	Message uint64 `json:"message"`
	ID      string `json:"id,omitzero"`
	Why     string `json:"why"`
}

// redeliver writes events that were put aside, in their order, and answers which of them
// the trail has. The edge that asked then deletes these from stream DLQ. An event is
// deleted only after its commit, and the trail takes an event once, so a request may be
// repeated safely wherever the one before it broke off.
func (q *questions) redeliver(ctx context.Context, p map[string]string) (any, error) {
	after, err := strconv.ParseUint(p["after"], 10, 64)
	if p["after"] == "" {
		after, err = 0, nil
	}
	if _, there := p["after"]; err != nil || len(p) > 1 || len(p) == 1 && !there {
		return nil, fault.New(fault.InvalidParams, "redeliver has no parameter but after, the number of a message of stream DLQ")
	}
	dead := q.dead.Load()
	if dead == nil {
		return nil, fault.New(fault.Unavailable, "the audit service is not on the bus yet; try again shortly")
	}
	letters, more, err := dead.Read(ctx, after)
	if err != nil {
		return nil, err
	}
	report := Redelivery{Left: []LeftEvent{}}
	for _, run := range readable(letters) {
		if err := q.rewrite(ctx, run, &report); err != nil {
			return nil, q.partly(report, err)
		}
	}
	if more {
		report.Next = strconv.FormatUint(letters[len(letters)-1].Seq, 10)
	}
	return report, nil
}

// partly is the error of a request that gave up after it had committed something.
func (q *questions) partly(report Redelivery, err error) error {
	if report.Written == 0 {
		return err
	}
	f := fault.From(q.told(err)).Ran(fault.Yes)
	f.Message = fmt.Sprintf("%d events were written to the trail, then it failed; repeat the command: %s", report.Written, f.Message)
	return f
}

// readable divides letters into runs: neighbours that can be read are one run, and each
// other letter is one alone.
func readable(letters []auditlog.Letter) (runs [][]auditlog.Letter) {
	for i, l := range letters {
		if n := len(runs) - 1; n >= 0 && l.Err == nil && letters[i-1].Err == nil {
			runs[n] = append(runs[n], l)
		} else {
			runs = append(runs, []auditlog.Letter{l})
		}
	}
	return runs
}

// rewrite writes a run of letters. If the database refuses the run, it writes each letter
// alone.
func (q *questions) rewrite(ctx context.Context, run []auditlog.Letter, report *Redelivery) error {
	leave := func(why error) error {
		report.Left = append(report.Left, LeftEvent{Message: run[0].Seq, ID: run[0].Event.GetId(), Why: why.Error()})
		return nil
	}
	if run[0].Err != nil {
		return leave(run[0].Err)
	}
	events := make([]trail.Event, len(run))
	for i, l := range run {
		events[i] = trail.FromWire(l.Event)
	}
	added, err := q.store.Append(ctx, events)
	switch {
	case errors.Is(err, trail.ErrRejected) && len(run) == 1:
		return leave(err)
	case errors.Is(err, trail.ErrRejected):
		return errors.Join(q.rewrite(ctx, run[:len(run)/2], report), q.rewrite(ctx, run[len(run)/2:], report))
	case err != nil:
		return err
	}
	report.Written, report.Known = report.Written+added, report.Known+len(run)-added
	for _, l := range run {
		report.Committed = append(report.Committed, l.Seq)
	}
	return nil
}
