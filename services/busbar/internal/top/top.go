// Package top shows what the instances on a bus do: calls, how long they take, errors,
// slots and queues. It asks each instance for its counts, which costs one message of each
// for every look, however many clients there are.
package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// Line is what one instance, or one tool, did between two looks.
type Line struct {
	Service  string `json:"service"`
	Instance string `json:"instance,omitzero"`
	Version  string `json:"version,omitzero"`
	// Tool is set in the view by tool. Then times, slots and waiting calls are not known.
	Tool string `json:"tool,omitzero"`
	// Calls and Errors are per second. MS is the average time of a call; within P50 and P99 half
	// of the calls, and 99 of 100, ended. They are 0 if there were no calls.
	Calls  float64 `json:"calls_per_second"`
	Errors float64 `json:"errors_per_second"`
	MS     float64 `json:"average_ms"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	// Running calls have one of Slots; Waiting ones do not yet.
	Running int `json:"running"`
	Slots   int `json:"slots"`
	Waiting int `json:"waiting"`
	// Served and Failed are counts since the instance started.
	Served int64 `json:"served"`
	Failed int64 `json:"failed"`
	// NotReady is why the instance is not ready; empty where it is.
	NotReady string `json:"not_ready,omitzero"`
}

// Lines compares two looks. An instance that was not there before, or has started again,
// has no rates yet.
func Lines(before, now []bus.Reading, took time.Duration) (lines []Line) {
	known := map[string]bus.Reading{}
	for _, r := range before {
		known[r.Instance] = r
	}
	for _, r := range now {
		l := Line{
			Service: r.Service, Instance: r.Instance, Version: r.Version, Running: r.Running, Slots: r.Slots,
			Waiting: r.Waiting, Served: r.Served, Failed: r.Failed, NotReady: r.NotReady,
		}
		if was, ok := known[r.Instance]; ok && r.Served >= was.Served && took > 0 {
			calls := r.Served - was.Served
			l.Calls, l.Errors = float64(calls)/took.Seconds(), float64(r.Failed-was.Failed)/took.Seconds()
			if calls > 0 {
				l.MS = milliseconds(time.Duration(r.TookNano-was.TookNano)) / float64(calls)
			}
			took := r.Durations.Since(was.Durations)
			p50, _ := took.Quantile(0.5)
			p99, _ := took.Quantile(0.99)
			l.P50, l.P99 = milliseconds(p50), milliseconds(p99)
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance))
	})
	return lines
}

// ToolLines compares two looks by tool, over all instances of a service. An instance that was not
// there before, or has started again, adds to the counts, but not to the rates.
func ToolLines(before, now []bus.Reading, took time.Duration) (lines []Line) {
	known := map[string]bus.Reading{}
	for _, r := range before {
		known[r.Instance] = r
	}
	type name struct{ service, tool string }
	all := map[name]*Line{}
	for _, r := range now {
		was, again := known[r.Instance]
		again = again && r.Served >= was.Served && took > 0
		for tool, n := range r.Tools {
			l := all[name{r.Service, tool}]
			if l == nil {
				l = &Line{Service: r.Service, Tool: tool}
				all[name{r.Service, tool}] = l
			}
			l.Served, l.Failed = l.Served+n.Served, l.Failed+n.Failed
			if before := was.Tools[tool]; again && n.Served > before.Served {
				l.Calls += float64(n.Served - before.Served)
				l.Errors += float64(n.Failed - before.Failed)
				l.MS += milliseconds(time.Duration(n.TookNano - before.TookNano))
			}
		}
	}
	for _, l := range all {
		if l.Calls > 0 {
			l.MS /= l.Calls
			l.Calls, l.Errors = l.Calls/took.Seconds(), l.Errors/took.Seconds()
		}
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Tool, b.Tool))
	})
	return lines
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// column is one of the table: what it shows of an instance. On a screen that is too narrow
// for all, those with the highest rank are left out first.
type column struct {
	title string
	width int // negative: to the left
	rank  int
	show  func(Line) string
}

var columns = []column{
	{"INSTANCE", -8, 4, func(l Line) string { return terminal.Clip(terminal.SafeLine(l.Instance), 8) }},
	{"VERSION", -10, 6, func(l Line) string { return terminal.Clip(terminal.SafeLine(l.Version), 10) }},
	callRate, errorRate,
	{"P50 MS", 7, 5, func(l Line) string { return known(l.P50) }},
	{"P99 MS", 7, 2, func(l Line) string { return known(l.P99) }},
	{"SLOTS", 7, 0, func(l Line) string { return fmt.Sprintf("%d/%d", l.Running, l.Slots) }},
	{"WAITING", 7, 0, func(l Line) string { return fmt.Sprint(l.Waiting) }},
	failures, served,
}

// toolColumns are the columns of the view by tool.
var toolColumns = []column{
	{"SERVICE", -12, 4, func(l Line) string { return terminal.Clip(terminal.SafeLine(l.Service), 12) }},
	callRate, errorRate,
	{"AVERAGE MS", 10, 2, func(l Line) string { return known(l.MS) }},
	failures, served,
}

var (
	callRate  = column{"CALLS/S", 7, 0, func(l Line) string { return fmt.Sprintf("%.1f", l.Calls) }}
	errorRate = column{"ERRORS/S", 8, 1, func(l Line) string { return fmt.Sprintf("%.1f", l.Errors) }}
	failures  = column{"ERRORS", 7, 3, func(l Line) string { return fmt.Sprint(l.Failed) }}
	served    = column{"SERVED", 9, 7, func(l Line) string { return fmt.Sprint(l.Served) }}
)

const (
	// narrow is how wide the name of a service is at least.
	narrow  = 12
	highest = 7
)

// fit returns the columns up to a rank, and how much of a width they leave for names.
func fit(columns []column, width, rank int) (shown []column, name int) {
	name = width
	for _, c := range columns {
		if c.rank <= rank {
			shown, name = append(shown, c), name-max(c.width, -c.width)-1
		}
	}
	if name >= narrow || rank == 0 {
		return shown, max(narrow, name)
	}
	return fit(columns, width, rank-1)
}

// Table lays lines out, after a sum and a heading. height is the height of a screen; if not all
// lines fit, those in trouble come first. With height 0 all lines and columns are shown. tools
// says that the lines are tools.
func Table(lines []Line, tools bool, style terminal.Style, width, height int) string {
	cells, first := columns, "SERVICE"
	nameOf := func(l Line) string { return terminal.SafeLine(l.Service) }
	if tools {
		cells, first = toolColumns, "TOOL"
		nameOf = func(l Line) string { return terminal.SafeLine(l.Tool) }
	}
	name := narrow // no wider than the names, so that numbers are next to them
	for _, l := range lines {
		name = max(name, terminal.Cells(nameOf(l)))
	}
	clip := func(s string) string { return s }
	if height > 0 {
		var room int
		cells, room = fit(cells, width, highest)
		name = min(name, room)
		clip = func(s string) string { return terminal.Clip(s, width) } // a line that is too long would take two
	}
	row := func(first string, show func(column) string) string {
		var b strings.Builder
		first = terminal.Clip(first, name)
		b.WriteString(first + strings.Repeat(" ", name-terminal.Cells(first)))
		for _, c := range cells {
			fmt.Fprintf(&b, " %*s", c.width, show(c))
		}
		return clip(strings.TrimRight(b.String(), " "))
	}
	var sum Line
	services := map[string]bool{}
	unready := 0
	for _, l := range lines {
		if l.NotReady != "" {
			unready++
		}
		services[l.Service] = true
		sum.Calls, sum.Errors, sum.Running, sum.Waiting = sum.Calls+l.Calls, sum.Errors+l.Errors, sum.Running+l.Running, sum.Waiting+l.Waiting
	}
	var b strings.Builder
	said := fmt.Sprintf("%d services, %d instances: %.1f calls/s, %.1f errors/s, %d running, %d waiting", len(services), len(lines), sum.Calls, sum.Errors, sum.Running, sum.Waiting)
	if tools {
		said = fmt.Sprintf("%d tools of %d services: %.1f calls/s, %.1f errors/s", len(lines), len(services), sum.Calls, sum.Errors)
	}
	if unready > 0 {
		said += fmt.Sprintf(", %d not ready (busbar doctor says why)", unready)
	}
	b.WriteString(clip(said) + "\n\n")
	b.WriteString(style.Bold(row(first, func(c column) string { return c.title })) + "\n")
	shown := lines
	if room := max(1, height-4); height > 0 && len(lines) > room {
		shown = slices.Clone(lines)
		slices.SortStableFunc(shown, func(a, b Line) int { return cmp.Compare(trouble(b), trouble(a)) })
		shown = shown[:room]
	}
	for _, l := range shown {
		text := row(nameOf(l), func(c column) string { return c.show(l) })
		switch trouble(l) {
		case 2:
			text = style.Red(text)
		case 1:
			text = style.Yellow(text)
		}
		b.WriteString(text + "\n")
	}
	if more := len(lines) - len(shown); more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
	}
	return b.String()
}

// trouble is 2 where half of the calls fail or the instance is not ready, and 1 where some do or wait.
func trouble(l Line) int {
	switch {
	case l.NotReady != "", l.Errors > 0 && l.Errors*2 >= l.Calls:
		return 2
	case l.Waiting > 0 || l.Errors > 0:
		return 1
	}
	return 0
}

// known is a time that is not known where there were no calls.
func known(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ms)
}

// Options of a run.
type Options struct {
	// Every is the time between two looks.
	Every time.Duration
	// Tools shows tools at first. The key t switches between instances and tools.
	Tools bool
	// Once looks twice and ends; JSON prints each look as a line of JSON.
	Once, JSON bool
	Style      terminal.Style
	// Screen is the size of a terminal that is drawn over; nil for plain lines.
	Screen func() (width, height int)
	// Keys are the keys that are pressed; q and Ctrl-C end. Nil for none.
	Keys <-chan byte
	// Resized has a value when Screen may have changed.
	Resized <-chan struct{}
}

// wait is how long instances have to answer.
const wait = time.Second

// Run shows what the instances do, until ctx ends, q is typed, or once.
func Run(ctx context.Context, conn *bus.Conn, o Options, out io.Writer) error {
	before, err := conn.Survey(ctx, wait)
	if err != nil {
		return err
	}
	at := time.Now()
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	last := look{Lines(nil, before, 0), ToolLines(nil, before, 0)}
	silent := "" // why lines are not of now
	for {
		if !o.Once {
			if err := o.show(out, last, silent); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case key, open := <-o.Keys:
			switch {
			case !open:
				o.Keys = nil
			case key == 'q' || key == 'Q' || key == 3:
				return nil
			case key == 't' || key == 'T':
				o.Tools = !o.Tools
			}
			continue
		case <-o.Resized:
			continue
		case <-tick.C:
		}
		now, err := conn.Survey(ctx, min(wait, o.Every))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && o.Once:
			return err
		case err != nil:
			// The bus is away for a while.
			silent = fmt.Sprintf("no answer since %s: %v", at.Format(time.TimeOnly), err)
			continue
		}
		silent = ""
		took := time.Since(at)
		last = look{Lines(before, now, took), ToolLines(before, now, took)}
		before, at = now, time.Now()
		if o.Once {
			return o.show(out, last, "")
		}
	}
}

const (
	home     = "\x1b[H"
	toEnd    = "\x1b[J"
	restLine = "\x1b[K\r\n"
)

// look is one measurement, by instance and by tool.
type look struct{ instances, tools []Line }

// show prints a look. If the bus does not answer, only a screen keeps the last look.
func (o Options) show(out io.Writer, last look, silent string) error {
	lines, of := last.instances, "instances"
	if o.Tools {
		lines, of = last.tools, "tools"
	}
	if o.JSON {
		look := map[string]any{"time": time.Now().UTC(), of: slices.Concat([]Line{}, lines)}
		if silent != "" {
			look[of], look["error"] = []Line{}, silent
		}
		if err := json.MarshalWrite(out, look, json.Deterministic(true), jsontext.Multiline(false)); err != nil {
			return err
		}
		_, err := io.WriteString(out, "\n")
		return err
	}
	if o.Screen == nil {
		text := Table(lines, o.Tools, o.Style, 0, 0)
		if silent != "" {
			text = terminal.SafeLine(silent) + "\n"
		}
		_, err := io.WriteString(out, text+"\n")
		return err
	}
	width, height := o.Screen()
	var b strings.Builder
	b.WriteString(home)
	table := Table(lines, o.Tools, o.Style, width, height-1)
	for line := range strings.Lines(table) {
		b.WriteString(strings.TrimSuffix(line, "\n") + restLine)
	}
	keys := "t shows tools, q quits"
	if o.Tools {
		keys = "t shows instances, q quits"
	}
	foot := o.Style.Dim(terminal.Clip(keys, width))
	if silent != "" {
		foot = o.Style.Red(terminal.Clip(terminal.SafeLine(silent)+"; q quits", width))
	}
	b.WriteString(foot + toEnd)
	_, err := io.WriteString(out, b.String())
	return err
}
