package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/pprof/profile"

	"github.com/busbar-mcp/busbar/test/bench/budget"
	"github.com/busbar-mcp/busbar/test/bench/load"
)

// sampleEach is how many bytes are allocated between two that a profile has: enough samples
// in a few seconds for allocations that are 0.1 % of all.
const sampleEach = 8 << 10

// mostUnassigned is the share of a call that may belong to no stage.
const mostUnassigned = 0.03

// spent is where one contender's calls leave their processor time and memory.
type spent struct {
	Name string
	budget.Budget
	// CPU is the processor time of a call as /proc has it, in µs: a profile is only samples.
	CPU float64
}

// budget profiles the small call, and reports the cost of each stage.
func (b *bench) budget(ctx context.Context) error {
	defer b.ship()
	if err := b.profile(ctx, "busbar"); err != nil {
		return err
	}
	if err := b.profile(ctx, "peers"); err != nil {
		return err
	}
	if err := budget.Check(budget.Stages, b.programs.path("busbar"), b.programs.path("peers")); err != nil {
		return err
	}
	var answer []byte
	for _, one := range []struct {
		name  string
		start func() (*system, error)
	}{
		{"busbar dev", func() (*system, error) { return b.dev() }},
		{"full chain", b.guarded},
		{"floor", func() (*system, error) { return b.peer("floor", answer) }},
	} {
		if b.smoke && one.name == "full chain" {
			continue // the same stages once more
		}
		s := spent{Name: one.name}
		var err error
		if answer, err = b.spend(ctx, &s, one.start, answer); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		rest, all := s.Budget[budget.Rest].CPU, s.All()
		b.say("budget: %s: %.1f µs and %.0f allocations of %.0f bytes a call; %.1f µs by /proc", s.Name, all.CPU, all.Objects, all.Bytes, s.CPU)
		if rest > mostUnassigned*all.CPU && !b.smoke {
			return fmt.Errorf("%s: %.1f of %.1f µs belong to no stage of test/bench/budget", s.Name, rest, all.CPU)
		}
		b.spents = append(b.spents, s)
	}
	return nil
}

// spend measures one contender twice, with a profile of the processor and with one of
// allocations, which costs time itself.
func (b *bench) spend(ctx context.Context, s *spent, start func() (*system, error), answer []byte) ([]byte, error) {
	run := func(rate int, begin, end string) (first, last *profile.Profile, found sample, err error) {
		at, err := b.door(rate)
		if err != nil {
			return nil, nil, found, err
		}
		one, err := start()
		if err != nil {
			return nil, nil, found, err
		}
		c, err := b.enter(ctx, s.Name, one, small.modern(one))
		if err != nil {
			return nil, nil, found, err
		}
		if answer == nil {
			if answer, err = load.Once(small.modern(one)); err != nil {
				return nil, nil, found, err
			}
		}
		if first, err = ask(ctx, at, begin); err != nil {
			return nil, nil, found, err
		}
		if found, err = c.measure(ctx, func() (load.Result, error) { return c.clients.Closed(ctx, 8*b.turn) }); err != nil {
			return nil, nil, found, err
		}
		last, err = ask(ctx, at, end)
		return first, last, found, errors.Join(err, b.end())
	}
	_, cpu, timed, err := run(512<<10, "begin", "end")
	if err != nil {
		return answer, err
	}
	before, after, counted, err := run(sampleEach, "allocs", "allocs")
	if err != nil {
		return answer, err
	}
	s.CPU = us(timed.cpu[0], timed.Calls)
	s.Budget, err = budget.Of(budget.Stages, cpu, timed.Calls, before, after, counted.Calls)
	return answer, err
}

// stages are the names of the rows of a budget.
func stages() (all []string) {
	for _, s := range budget.Stages {
		all = append(all, s.Name)
	}
	return append(all, budget.Rest)
}

// spentTable is the budget of all contenders: a line of titles, a line for each stage and
// one of sums.
func (b *bench) spentTable() (lines [][]string) {
	title := []string{"stage"}
	for i, s := range b.spents {
		title = append(title, s.Name+", µs")
		if i == 0 {
			title = append(title, "of it in system calls", "of it allocating")
		}
		title = append(title, "allocations", "bytes")
	}
	lines = append(lines, title)
	line := func(name string, of func(budget.Budget) budget.Spent) {
		text := []string{name}
		for i, one := range b.spents {
			s := of(one.Budget)
			text = append(text, figure("%.1f", s.CPU))
			if i == 0 {
				text = append(text, figure("%.1f", s.Kernel), figure("%.1f", s.Heap))
			}
			text = append(text, figure("%.1f", s.Objects), figure("%.0f", s.Bytes))
		}
		lines = append(lines, text)
	}
	for _, name := range stages() {
		line(name, func(b budget.Budget) budget.Spent { return b[name] })
	}
	line("all", budget.Budget.All)
	return lines
}

// figure leaves out what is nothing.
func figure(format string, v float64) string {
	text := fmt.Sprintf(format, v)
	if strings.Trim(text, "-0.") == "" {
		return ""
	}
	return text
}

func (b *bench) printSpent(w io.Writer) {
	if len(b.spents) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range b.spentTable() {
		_, _ = fmt.Fprintln(t, strings.Join(line, "\t")+"\t")
	}
	_ = t.Flush()
}

func (b *bench) markdownSpent(w *strings.Builder, g group) {
	if g.name != "budget" || len(b.spents) == 0 {
		return
	}
	lines := b.spentTable()
	rule := slices.Repeat([]string{"---"}, len(lines[0]))
	fmt.Fprintf(w, "\n### %s%s\n\n", strings.ToUpper(g.about[:1]), g.about[1:])
	for _, line := range slices.Insert(lines, 1, rule) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
	}
}
