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
			Waiting: r.Waiting, Served: r.Served,
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

// columns of the table, each with its width; the first takes what is left.
const (
	head   = "%-*s %-12s %-10s %8s %8s %8s %8s %9s %7s %9s\n"
	fixed  = 12 + 10 + 8 + 8 + 8 + 8 + 9 + 7 + 9 + 9
	narrow = 12
)

// Table lays lines out, a heading and a sum first; the rest is cut to height, 0 for no
// bound.
func Table(lines []Line, style terminal.Style, width, height int) string {
	name := max(narrow, width-fixed)
	var b strings.Builder
	var sum Line
	services := map[string]bool{}
	for _, l := range lines {
		services[l.Service] = true
		sum.Calls, sum.Errors, sum.Running, sum.Waiting = sum.Calls+l.Calls, sum.Errors+l.Errors, sum.Running+l.Running, sum.Waiting+l.Waiting
	}
	fmt.Fprintf(&b, "%d services, %d instances: %.1f calls/s, %.1f errors/s, %d running, %d waiting\n\n", len(services), len(lines), sum.Calls, sum.Errors, sum.Running, sum.Waiting)
	titles := strings.TrimRight(fmt.Sprintf(head, name, "SERVICE", "INSTANCE", "VERSION", "CALLS/S", "ERRORS/S", "P50 MS", "P99 MS", "SLOTS", "WAITING", "SERVED"), "\n")
	if height > 0 {
		titles = terminal.Clip(titles, width)
	}
	b.WriteString(style.Bold(titles) + "\n")
	shown := lines
	if height > 0 && len(shown) > max(1, height-4) {
		shown = shown[:max(1, height-4)]
	}
	for _, l := range shown {
		text := strings.TrimRight(fmt.Sprintf(head, name, terminal.Clip(terminal.SafeLine(l.Service), name), terminal.Clip(terminal.SafeLine(l.Instance), 12), terminal.Clip(terminal.SafeLine(l.Version), 10),
			fmt.Sprintf("%.1f", l.Calls), fmt.Sprintf("%.1f", l.Errors), known(l.P50), known(l.P99), fmt.Sprintf("%d/%d", l.Running, l.Slots), fmt.Sprint(l.Waiting), fmt.Sprint(l.Served)), "\n")
		if height > 0 { // a line that is too long would take two
			text = terminal.Clip(text, width)
		}
		switch {
		case l.Errors > 0 && l.Errors*2 >= l.Calls:
			text = style.Red(text)
		case l.Waiting > 0 || l.Errors > 0:
			text = style.Yellow(text)
		}
		b.WriteString(text + "\n")
	}
	if more := len(lines) - len(shown); more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
	}
	return b.String()
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
	// Width of plain lines.
	Width int
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
	for {
		if !o.Once {
			if err := o.show(out, lines); err != nil {
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
			continue // the bus is away for a while: what was seen stays
		}
		lines, before, at = Lines(before, now, time.Since(at)), now, time.Now()
		if o.Once {
			return o.show(out, lines)
		}
	}
}

const (
	home     = "\x1b[H"
	toEnd    = "\x1b[J"
	restLine = "\x1b[K\r\n"
)

func (o Options) show(out io.Writer, lines []Line) error {
	if o.JSON {
		if lines == nil {
			lines = []Line{}
		}
		if err := json.MarshalWrite(out, map[string]any{"time": time.Now().UTC(), "instances": lines}, json.Deterministic(true), jsontext.Multiline(false)); err != nil {
			return err
		}
		_, err := io.WriteString(out, "\n")
		return err
	}
	if o.Screen == nil {
		_, err := io.WriteString(out, Table(lines, o.Style, o.Width, 0)+"\n")
		return err
	}
	width, height := o.Screen()
	var b strings.Builder
	b.WriteString(home)
	table := Table(lines, o.Style, width, height-1)
	for line := range strings.Lines(table) {
		b.WriteString(strings.TrimSuffix(line, "\n") + restLine)
	}
	b.WriteString(o.Style.Dim("q ends") + toEnd)
	_, err := io.WriteString(out, b.String())
	return err
}
