package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// shortID is as much of a call's id as a list on a terminal shows: its end, since ids
// begin with the time.
const shortID = 8

// Columns of the table of events. What has no room is taken from the name, then from
// who called.
const (
	columnTime = iota
	columnWho
	columnName
	columnOutcome
	columnRan
	columnTook
	columnCall
)

// auditTable lays events out for a terminal, newest last.
func auditTable(events []trail.Row, width int, s terminal.Style) string {
	head := []string{"TIME", "WHO", "NAME", "OUTCOME", "RAN", "TOOK", "CALL"}
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = terminal.Cells(h)
	}
	rows, layout, today := make([][]string, len(events)), time.TimeOnly, time.Now().Format(time.DateOnly)
	if slices.ContainsFunc(events, func(e trail.Row) bool { return e.Time.Local().Format(time.DateOnly) != today }) {
		layout = "01-02 15:04:05" // names have the room of the date where all is of today
	}
	for n, e := range slices.Backward(events) {
		who, name := e.Principal, e.Name
		if e.Tenant != "" {
			who = e.Tenant + "/" + who
		}
		if e.Method != mcp.MethodToolsCall || name == "" { // which nearly all are
			name = strings.TrimSpace(e.Method + " " + name)
		}
		row := []string{e.Time.Local().Format(layout), who, name, e.Outcome, e.Executed, eventTook(&e), e.Call[max(0, len(e.Call)-shortID):]}
		for i, cell := range row {
			row[i] = terminal.SafeLine(cell)
			widths[i] = max(widths[i], min(terminal.Cells(row[i]), 2*maxColumn))
		}
		rows[len(events)-1-n] = row
	}
	over := 2*(len(head)-1) - width
	for _, w := range widths {
		over += w
	}
	for _, c := range []struct{ column, least int }{{columnName, 12}, {columnWho, 8}, {columnOutcome, 9}, {columnName, 4}} {
		narrow := min(max(over, 0), max(widths[c.column]-c.least, 0))
		widths[c.column] -= narrow
		over -= narrow
	}
	var b strings.Builder
	line := func(row []string, paint func(i int, text string) string) {
		for i, cell := range row {
			cell = terminal.Clip(cell, widths[i])
			b.WriteString(paint(i, cell))
			if i < len(row)-1 {
				b.WriteString(pad(cell, widths[i]) + "  ")
			}
		}
		b.WriteByte('\n')
	}
	line(head, func(_ int, text string) string { return s.Bold(text) })
	for _, row := range rows {
		line(row, func(i int, text string) string {
			switch {
			case i == columnOutcome && text != "ok" && text != "task" && text != "input_required":
				return s.Red(text)
			case i == columnTime || i == columnCall:
				return s.Dim(text)
			}
			return text
		})
	}
	return b.String()
}

func showEvent(b *strings.Builder, e *trail.Row, s terminal.Style) {
	client := strings.TrimSpace(e.ClientName + " " + e.ClientVersion)
	arguments := string(e.Arguments)
	if e.ArgumentsNote != "" {
		arguments = strings.TrimSpace(arguments + " (" + e.ArgumentsNote + ")")
	}
	approval := e.Approval
	if approval != "" {
		approval += " by " + e.ApprovalBy
		if !e.ApprovalTime.IsZero() {
			approval += " at " + e.ApprovalTime.Format(time.RFC3339Nano)
		}
		approval += " through " + e.ApprovalDoor
	}
	principal := e.Principal
	if e.Program {
		principal += ", a program"
	}
	repeated := ""
	if e.Repeated > 0 {
		repeated = counted(int(e.Repeated), "more call") + " refused alike"
	}
	for _, d := range []detail{
		{"event", e.ID}, {"time", e.Time.Format(time.RFC3339Nano)}, {"tenant", e.Tenant}, {"principal", principal}, {"client", client},
		{"door", e.Door}, {"method", e.Method}, {"name", e.Name}, {"toolset", e.Toolset}, {"service", strings.TrimSpace(e.Service + " " + e.ServiceVersion)}, {"instance", e.Instance}, {"arguments", arguments},
		{"outcome", e.Outcome}, {"executed", e.Executed}, {"repeated", repeated}, {"approval", approval}, {"made by", e.Parent}, {"took", eventTook(e)}, {"edge", e.Edge}, {"traceparent", e.Traceparent},
		{"row", strconv.FormatInt(e.Seq, 10)}, {"hash", e.Hash.String()},
	} {
		if d.text != "" {
			fmt.Fprintf(b, "%s%s %s\n", s.Dim(d.label+":"), pad(d.label, 11), terminal.SafeLine(d.text))
		}
	}
}
