package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// variant is a part with another environment: its program is built of sources that simulate that.
// It is not a bug, and must have no consequences.
type variant struct {
	name, part, program string
	edits               []edit
}

var (
	// A network may deliver a message twice.
	sendsTwice = variant{"every request and permit is sent twice", "edge-2", busbarProgram, []edit{{"request-twice", twice}, {"permit-twice", twice}}}
	// This is the clock of the bus's protocol: deadlines, announcements, seals. For other times a
	// program's libraries ask this machine.
	behind = variant{"2 min behind", "edge-2", busbarProgram, []edit{{"clock", swap("time.Now", "func() time.Time { return time.Now().Add(-2 * time.Minute) }")}}}
	ahead  = variant{"45 s ahead", "ledger-2", ledgerProgram, []edit{{"clock", swap("time.Now", "func() time.Time { return time.Now().Add(45 * time.Second) }")}}}
)

// become has parts run as variants.
func (w *world) become(ctx context.Context, all ...variant) error {
	for i, v := range all {
		program, err := w.build(ctx, planted{name: v.name, program: v.program, edits: v.edits}, filepath.Join(w.dir, "variants", fmt.Sprint(i)))
		if err != nil {
			return err
		}
		w.fleet.Use(v.part, program)
		if err := w.again(ctx, v.part); err != nil {
			return err
		}
	}
	return nil
}

// unnoticed has clients that do not retry call a fleet with variants: none may notice.
func unnoticed(all ...variant) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.become(ctx, all...); err != nil {
			return err
		}
		if err := w.usable(ctx); err != nil {
			return err
		}
		calls, err := w.under(ctx, load.Load{Only: []history.Kind{history.ReadOnce, history.Write, history.Keyed, history.Stored, history.Approval}},
			func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		failed := 0
		for _, c := range calls {
			if first := c.Tries[0]; !first.OK && c.Kind != history.Approval {
				failed++
				w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: fmt.Sprintf("%s %s: %v", c.Door, c.Kind, first.Answer)})
			}
		}
		for _, v := range all {
			w.result.row(v.part, "", "%s", v.name)
		}
		w.result.row("calls that failed at the first try", "0", "%d of %d", failed, len(calls))
		return nil
	}
}
