package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The generated part of a page is between these; the rest is written by hand.
const (
	pageBegin = "<!-- begin: make bench writes this -->\n"
	pageEnd   = "<!-- end: make bench wrote this -->\n"
)

// write puts the figures into a page.
func (b *bench) write(path string, took time.Duration) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	before, rest, begun := strings.Cut(string(text), pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !begun || !ended {
		return fmt.Errorf("--out %s: the lines %q and %q say where the figures go", path, strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	if err := os.WriteFile(path, []byte(before+pageBegin+"\n"+b.markdown(took)+"\n"+pageEnd+after), 0o644); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

func (b *bench) markdown(took time.Duration) string {
	var w strings.Builder
	m := b.machine
	fmt.Fprintf(&w, "%s, version %s, %d processors, %s, %s, %s. Load of the machine %s before and %s after. %d rounds of %v, %d connections; %v in all.\n",
		m.Date, m.Version, m.Processors, m.Processor, m.System, m.Go, m.LoadBefore, m.LoadAfter, b.rounds, b.round, b.connections, took.Round(time.Second))
	for _, g := range groups {
		b.markdownRows(&w, g)
		b.markdownCosts(&w, g)
	}
	return w.String()
}

func (b *bench) markdownRows(w *strings.Builder, g group) {
	header := fmt.Sprintf("\n### %s%s\n\n| what | median | from | to | wanted | reached |\n|---|---|---|---|---|---|\n", strings.ToUpper(g.about[:1]), g.about[1:])
	for _, r := range b.rows {
		if r.Group != g.name {
			continue
		}
		what := r.What
		if r.Note != "" {
			what += " (" + r.Note + ")"
		}
		fmt.Fprintf(w, "%s| %s | %s | %s | %s | %s | %s |\n", header, what, quantity(r.median(), r.Unit), quantity(r.Of[0], ""), quantity(r.Of[len(r.Of)-1], ""), r.wanted(), r.reached())
		header = ""
	}
}

func (b *bench) markdownCosts(w *strings.Builder, g group) {
	header := "\n| system | calls/s | p50 ms | p99 ms | busy after the last answer, s | CPU of a call, µs |\n|---|---|---|---|---|---|\n"
	for _, c := range b.costs {
		if c.Group != g.name {
			continue
		}
		fmt.Fprintf(w, "%s| %s | %.0f | %.2f | %.2f | %.1f | %s |\n", header, c.Name, median(c.Rate), median(c.P50), median(c.P99), median(c.Stored), c.shares())
		header = ""
	}
}
