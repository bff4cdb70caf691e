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

// Line is what one instance did between two looks.
type Line struct {
	Service  string `json:"service"`
	Instance string `json:"instance"`
	Version  string `json:"version"`
	// Calls and Errors of a second; how long a call took on average, and within what time
	// half and 99 of 100 ended, which is not known where there was none.
	Calls  float64 `json:"calls_per_second"`
	Errors float64 `json:"errors_per_second"`
	MS     float64 `json:"average_ms"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	// Running calls have one of Slots; Waiting ones do not yet.
	Running int `json:"running"`
	Slots   int `json:"slots"`
	Waiting int `json:"waiting"`
	// Served since the instance started.
	Served int64 `json:"served"`
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
			Waiting: r.Waiting, Served: r.Served, NotReady: r.NotReady,
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
	{"INSTANCE", -12, 3, func(l Line) string { return terminal.Clip(terminal.SafeLine(l.Instance), 12) }},
	{"VERSION", -10, 5, func(l Line) string { return terminal.Clip(terminal.SafeLine(l.Version), 10) }},
	{"CALLS/S", 8, 0, func(l Line) string { return fmt.Sprintf("%.1f", l.Calls) }},
	{"ERRORS/S", 8, 1, func(l Line) string { return fmt.Sprintf("%.1f", l.Errors) }},
	{"P50 MS", 8, 4, func(l Line) string { return known(l.P50) }},
	{"P99 MS", 8, 2, func(l Line) string { return known(l.P99) }},
	{"SLOTS", 9, 0, func(l Line) string { return fmt.Sprintf("%d/%d", l.Running, l.Slots) }},
	{"WAITING", 7, 0, func(l Line) string { return fmt.Sprint(l.Waiting) }},
	{"SERVED", 9, 6, func(l Line) string { return fmt.Sprint(l.Served) }},
}

const (
	// narrow is how wide the name of a service is at least.
	narrow  = 12
	highest = 6
)

// fit is the columns up to a rank, and what they leave for names of a width.
func fit(width, rank int) (shown []column, name int) {
	name = width
	for _, c := range columns {
		if c.rank <= rank {
			shown, name = append(shown, c), name-max(c.width, -c.width)-1
		}
	}
	if name >= narrow || rank == 0 {
		return shown, max(narrow, name)
	}
	return fit(width, rank-1)
}

// Table lays lines out, a heading and a sum first. A height is that of a screen, on which
// those in trouble come first where not all have room; 0 has all lines and columns.
func Table(lines []Line, style terminal.Style, width, height int) string {
	cells, name := columns, narrow
	clip := func(s string) string { return s }
	if height > 0 {
		cells, name = fit(width, highest)
		clip = func(s string) string { return terminal.Clip(s, width) } // a line that is too long would take two
	}
	row := func(first string, show func(column) string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%-*s", name, terminal.Clip(terminal.SafeLine(first), name))
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
	if unready > 0 {
		said += fmt.Sprintf(", %d not ready (busbar doctor says why)", unready)
	}
	b.WriteString(clip(said) + "\n\n")
	b.WriteString(style.Bold(row("SERVICE", func(c column) string { return c.title })) + "\n")
	shown := lines
	if room := max(1, height-4); height > 0 && len(lines) > room {
		shown = slices.Clone(lines)
		slices.SortStableFunc(shown, func(a, b Line) int { return cmp.Compare(trouble(b), trouble(a)) })
		shown = shown[:room]
	}
	for _, l := range shown {
		text := row(l.Service, func(c column) string { return c.show(l) })
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
	// Once looks twice and ends; JSON prints each look as a line of JSON.
	Once, JSON bool
	Style      terminal.Style
	// Screen is the size of a terminal that is drawn over; nil for plain lines.
	Screen func() (width, height int)
	// Keys are what is typed; q and Ctrl-C end. Nil for none.
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
	lines := Lines(nil, before, 0)
	silent := "" // why lines are not of now
	for {
		if !o.Once {
			if err := o.show(out, lines, silent); err != nil {
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
		lines, before, at = Lines(before, now, time.Since(at)), now, time.Now()
		if o.Once {
			return o.show(out, lines, "")
		}
	}
}

const (
	home     = "\x1b[H"
	toEnd    = "\x1b[J"
	restLine = "\x1b[K\r\n"
)

// show prints what was seen; where the bus is silent, what was seen before stays on a
// screen alone.
func (o Options) show(out io.Writer, lines []Line, silent string) error {
	if o.JSON {
		look := map[string]any{"time": time.Now().UTC(), "instances": slices.Concat([]Line{}, lines)}
		if silent != "" {
			look["instances"], look["error"] = []Line{}, silent
		}
		if err := json.MarshalWrite(out, look, json.Deterministic(true), jsontext.Multiline(false)); err != nil {
			return err
		}
		_, err := io.WriteString(out, "\n")
		return err
	}
	if o.Screen == nil {
		text := Table(lines, o.Style, 0, 0)
		if silent != "" {
			text = terminal.SafeLine(silent) + "\n"
		}
		_, err := io.WriteString(out, text+"\n")
		return err
	}
	width, height := o.Screen()
	var b strings.Builder
	b.WriteString(home)
	table := Table(lines, o.Style, width, height-1)
	for line := range strings.Lines(table) {
		b.WriteString(strings.TrimSuffix(line, "\n") + restLine)
	}
	last := o.Style.Dim("q ends")
	if silent != "" {
		last = o.Style.Red(terminal.Clip(terminal.SafeLine(silent)+"; q ends", width))
	}
	b.WriteString(last + toEnd)
	_, err := io.WriteString(out, b.String())
	return err
}
