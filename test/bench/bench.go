package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// bench is one run: its settings and its results.
type bench struct {
	options
	root     string
	programs built
	machine  machine
	dir      string        // of the group that runs
	turn     time.Duration // how long each is under load in a round of it
	closers  []func() error
	rows     []row
	costs    []cost
	curves   []curve
	spents   []spent
	// environment is added to the environment of started programs.
	environment []string
	// again are groups that were measured a second time, and why.
	again []string
}

// group is rows that are measured together, on processes of their own.
type group struct {
	name, about string
	run         func(*bench, context.Context) error
}

// groups are in the order in which they are measured.
var groups []group

func init() { // not at its declaration: groups are known to --help, which they can reach
	groups = []group{
		{"core", "small calls, beside the floor and other servers", (*bench).core},
		{"budget", "where the processor time and the memory of a small call go", (*bench).budget},
		{"sizes", "small and large arguments and results", (*bench).sizes},
		{"progress", "calls with progress frames", (*bench).progress},
		{"catalogue", "lists of 10 to 10,000 tools, and calls beside them", (*bench).catalogue},
		{"batch", "a batch of 1,000 calls of 20 ms", (*bench).batch},
		{"stored", "resources on SQLite and Postgres", (*bench).stored},
		{"git", "tools of the workspace beside the git program", (*bench).git},
		{"doors", "the small call through each door", (*bench).doors},
		{"scale", "1 to 4 edges, 1 to 8 instances", (*bench).scale},
		{"streams", "10,000 idle streams, and a change that all are told of", (*bench).streams},
		{"memory", "memory at rest, of a session and of a service", (*bench).memory},
		{"stdio", "the start of busbar stdio", (*bench).stdio},
	}
}

// row is one figure: of each round, a ratio or a quantity.
type row struct {
	Group, What string
	// Unit is empty for a ratio.
	Unit string
	// Of are the figures of the rounds, in order of size.
	Of []float64
	// Want is the target, a minimum or a maximum. 0: the figure is only shown.
	Want   float64
	AtMost bool
	// Note is a remark for the reader.
	Note string
}

func (r row) median() float64 { return r.Of[len(r.Of)/2] }

// reached says in a word whether the figure meets its target.
func (r row) reached() string {
	switch {
	case r.Want == 0:
		return ""
	case r.AtMost && r.median() <= r.Want, !r.AtMost && r.median() >= r.Want:
		return "yes"
	}
	return "no"
}

func (r row) wanted() string {
	switch {
	case r.Want == 0:
		return ""
	case r.AtMost:
		return "at most " + quantity(r.Want, r.Unit)
	}
	return "at least " + quantity(r.Want, r.Unit)
}

// cost is the cost of a contender's call to the processes of its system.
type cost struct {
	Group, Name string
	Rate        []float64 // calls a second
	P50, P99    []float64 // in ms
	Process     []string
	CPU         [][]float64 // of each process, in µs a call
	Memory      []float64   // of each process before the rounds, in MiB
	Caller      []float64   // of this process, in µs a call
	// Stored is how long after the last answer processes were busy, in seconds.
	Stored []float64
}

// curve is latency by quantile at a rate, from the moment at which each call was due.
type curve struct {
	Group, Name string
	Rate        float64
	Quantiles   []float64 // in ms
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// twice measures a group, and a second time if that failed: a refusal of a machine that
// stood still is not worth the figures of the others, but it is told.
func (b *bench) twice(ctx context.Context, g group) error {
	rows, costs, curves, spents := len(b.rows), len(b.costs), len(b.curves), len(b.spents)
	err := b.group(ctx, g)
	if err == nil || ctx.Err() != nil {
		return err
	}
	b.say("%s: failed, once more: %v", g.name, err)
	b.again = append(b.again, fmt.Sprintf("%s was measured again after an error: %.300v", g.name, err))
	b.rows, b.costs, b.curves, b.spents = b.rows[:rows], b.costs[:costs], b.curves[:curves], b.spents[:spents]
	return b.group(ctx, g)
}

// group runs one in a directory that is its own, and ends what it has started.
func (b *bench) group(ctx context.Context, g group) (err error) {
	b.say("%s: %s", g.name, g.about)
	if b.dir, err = os.MkdirTemp("", "busbar-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end(), os.RemoveAll(b.dir)) }()
	// All other figures are compared with the small call, so it gets twice the time.
	if b.turn = b.round; g.name != "core" && g.name != "budget" {
		b.turn /= 2
	}
	return g.run(b, ctx)
}

// end ends what the group has started so far.
func (b *bench) end() (err error) {
	for _, end := range slices.Backward(b.closers) {
		err = errors.Join(err, end())
	}
	b.closers = nil
	return err
}

// later has something done at the end of the group, the last first.
func (b *bench) later(end func() error) { b.closers = append(b.closers, end) }

// add keeps a row and shows it.
func (b *bench) add(r row) {
	slices.Sort(r.Of)
	b.rows = append(b.rows, r)
	b.say("%s: %s: %s", r.Group, r.What, quantity(r.median(), r.Unit))
}

// quantity is a figure for people.
func quantity(v float64, unit string) string {
	text := fmt.Sprintf("%.2f", v)
	switch {
	case v >= 1000:
		text = fmt.Sprintf("%.0f", v)
	case v >= 100 || unit == "":
		text = fmt.Sprintf("%.3g", v)
		if unit == "" {
			text = fmt.Sprintf("%.2f", v)
		}
	}
	if unit != "" {
		text += " " + unit
	}
	return text
}

func (b *bench) print(w io.Writer, took time.Duration) {
	m := b.machine
	fmt.Fprintf(w, "\nBusbar %s, %d processors, %s, %s, %s; load of the machine %s before, %s after; %d rounds of %v, %d connections; %v in all.\n\n",
		m.Version, m.Processors, m.Processor, m.System, m.Go, m.LoadBefore, m.LoadAfter, b.rounds, b.round, b.connections, took.Round(time.Second))
	for _, line := range b.again {
		fmt.Fprintf(w, "%s\n\n", line)
	}
	if n, _ := load.Again(); n > 0 {
		fmt.Fprintf(w, "%d calls were made again: they were refused because a process stood still.\n\n", n)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "ROW\tMEDIAN\tFROM\tTO\tWANTED\tREACHED\t")
	for _, r := range b.rows {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, quantity(r.median(), r.Unit), quantity(r.Of[0], ""), quantity(r.Of[len(r.Of)-1], ""), r.wanted(), r.reached(), r.Note)
	}
	_ = t.Flush()
	b.printSpent(w)
	if len(b.costs) == 0 {
		return
	}
	fmt.Fprintln(w)
	_, _ = fmt.Fprintln(t, "CONTENDER\tCALLS/S\tP50 MS\tP99 MS\tSTORED AFTER S\tCALLER µS\tCPU OF A CALL µS\t")
	for _, c := range b.costs {
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.0f\t%s\t\n", c.Name, median(c.Rate), median(c.P50), median(c.P99), median(c.Stored), median(c.Caller), c.cpu())
	}
	_ = t.Flush()
	if len(b.curves) == 0 {
		return
	}
	fmt.Fprintln(w)
	_, _ = fmt.Fprintln(t, "CONTENDER\tCALLS/S ARE DUE\tP50 MS\tP90\tP99\tP99.9\t")
	for _, c := range b.curves {
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", c.Name, c.Rate, c.Quantiles[1], c.Quantiles[2], c.Quantiles[3], c.Quantiles[4])
	}
	_ = t.Flush()
}

func (c cost) cpu() string {
	return c.shares(func(i int) float64 { return median(c.CPU[i]) })
}

func (c cost) memory() string { return c.shares(func(i int) float64 { return c.Memory[i] }) }

// shares lists the share of each program, with all its processes, and the sum.
func (c cost) shares(of func(process int) float64) string {
	each, all := map[string]float64{}, 0.0
	var names []string
	for i, name := range c.Process {
		if _, known := each[name]; !known {
			names = append(names, name)
		}
		each[name] += of(i)
		all += of(i)
	}
	text := ""
	if len(names) > 1 {
		for _, name := range names {
			if each[name] < 0.5 {
				continue
			}
			text += fmt.Sprintf("%s %.0f, ", name, each[name])
		}
		text += "all "
	}
	return text + fmt.Sprintf("%.0f", all)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
