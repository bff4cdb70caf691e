package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// auditTable lays events out for a terminal, newest first.
func auditTable(events []trail.Row, width int, s terminal.Style) string {
	head := []string{"TIME", "WHO", "METHOD", "NAME", "OUTCOME", "RAN", "TOOK", "CALL"}
	rows := make([][]string, len(events))
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = terminal.Cells(h)
	}
	for n, e := range events {
		who := e.Principal
		if e.Tenant != "" {
			who = e.Tenant + "/" + who
		}
		rows[n] = []string{e.Time.Local().Format("01-02 15:04:05"), who, e.Method, e.Name, e.Outcome, e.Executed, eventTook(&e), e.Call}
		for i, cell := range rows[n] {
			rows[n][i] = terminal.Clip(terminal.SafeLine(cell), 2*maxColumn)
			widths[i] = max(widths[i], min(terminal.Cells(rows[n][i]), maxColumn))
		}
	}
	// The call, which is wide, stays whole: it is what `show` takes. What is too
	// much is taken from the name.
	widths[len(head)-1] = 26
	total := 2 * (len(head) - 1)
	for _, w := range widths {
		total += w
	}
	widths[3] = max(widths[3]-max(total-width, 0), 4)
	var b strings.Builder
	line := func(row []string, paint func(i int, text string) string) {
		for i, cell := range row {
			cell = terminal.Clip(cell, max(widths[i], 1))
			if i < len(row)-1 {
				b.WriteString(paint(i, cell) + pad(cell, widths[i]) + "  ")
			} else {
				b.WriteString(paint(i, cell) + "\n")
			}
		}
	}
	line(head, func(_ int, text string) string { return s.Bold(text) })
	for _, row := range rows {
		line(row, func(i int, text string) string {
			switch {
			case i == 4 && row[4] != "ok" && row[4] != "task" && row[4] != "input_required":
				return s.Red(text)
			case i == 0 || i == 7:
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
