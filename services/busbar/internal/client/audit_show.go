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

// shortID is how much of a call's ID a list on a terminal shows: its end, because IDs
// begin with the time.
const shortID = 8

// Columns of the table of events. If the table is too wide, names become narrower first, then
// callers.
const (
	columnTime = iota
	columnWho
	columnName
	columnOutcome
	columnRan
	columnTook
	columnCall
)

var (
	auditTitles = []string{"TIME", "WHO", "NAME", "OUTCOME", "RAN", "TOOK", "CALL"}
	auditCuts   = []terminal.Cut{{Column: columnName, Least: 12}, {Column: columnWho, Least: 8}, {Column: columnOutcome, Least: 9}, {Column: columnName, Least: 4}}
)

// longDate is the time of a list that has events of other days too.
const longDate = "01-02 15:04:05"

// auditTable lays events out for a terminal, newest last.
func auditTable(events []trail.Row, width int, s terminal.Style) string {
	layout, today := time.TimeOnly, time.Now().Format(time.DateOnly)
	if slices.ContainsFunc(events, func(e trail.Row) bool { return e.Time.Local().Format(time.DateOnly) != today }) {
		layout = longDate // otherwise names get the space of the date
	}
	rows := make([][]string, 0, len(events))
	for _, e := range slices.Backward(events) {
		rows = append(rows, auditCells(&e, layout))
	}
	table := terminal.NewTable(auditTitles, rows, width, 2*maxColumn, auditCuts...)
	var b strings.Builder
	b.WriteString(table.Line(auditTitles, func(_ int, text string) string { return s.Bold(text) }))
	for _, row := range rows {
		b.WriteString(table.Line(row, auditPaint(s)))
	}
	return b.String()
}

// auditCells are the cells of an event on a terminal.
func auditCells(e *trail.Row, layout string) []string {
	who, name := e.Principal, e.Name
	if e.Tenant != "" {
		who = e.Tenant + "/" + who
	}
	if e.Method != mcp.MethodToolsCall || name == "" { // nearly all are calls of tools
		name = strings.TrimSpace(e.Method + " " + name)
	}
	row := []string{e.Time.Local().Format(layout), who, name, e.Outcome, e.Executed, eventTook(e), e.Call[max(0, len(e.Call)-shortID):]}
	for i, cell := range row {
		row[i] = terminal.SafeLine(cell)
	}
	return row
}

func auditPaint(s terminal.Style) func(column int, text string) string {
	return func(column int, text string) string {
		switch {
		case column == columnOutcome && text != "ok" && text != "task" && text != "input_required":
			return s.Red(text)
		case column == columnTime || column == columnCall:
			return s.Dim(text)
		}
		return text
	}
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
