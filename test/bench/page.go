package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The generated part of a page is between these; the rest is written by hand.
const (
	pageBegin = "<!-- begin: make bench writes this -->\n"
	pageEnd   = "<!-- end: make bench wrote this -->\n"
)

// byHand is the page around its figures.
func byHand(path string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("--out: %w", err)
	}
	before, rest, begun := strings.Cut(string(text), pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !begun || !ended {
		return "", "", fmt.Errorf("--out %s: the lines %q and %q say where the figures go", path, strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	return before, after, nil
}

// write puts the figures into a page, and plots of the small call into a directory of its
// name beside it.
func (b *bench) write(path string, took time.Duration) error {
	before, after, err := byHand(path)
	if err != nil {
		return err
	}
	plots := strings.TrimSuffix(path, filepath.Ext(path))
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	var small []cost
	for _, c := range b.costs {
		if c.Group == "core" {
			small = append(small, c)
		}
	}
	for name, plot := range map[string][]byte{"rates.svg": plotRates(small), "cpu.svg": plotCPU(small), "latency.svg": plotLatency(b.curves)} {
		if err := os.WriteFile(filepath.Join(plots, name), plot, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	page := before + pageBegin + "\n" + b.markdown(filepath.Base(plots), took) + "\n" + pageEnd + after
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

func (b *bench) markdown(plots string, took time.Duration) string {
	var w strings.Builder
	m := b.machine
	fmt.Fprintf(&w, "%s, version %s, %d processors, %s, %s, %s. Load of the machine %s before and %s after. %d rounds of %v, half of it for all but the small call; %d connections; %v in all.\n",
		m.Date, m.Version, m.Processors, m.Processor, m.System, m.Go, m.LoadBefore, m.LoadAfter, b.rounds, b.round, b.connections, took.Round(time.Second))
	for _, line := range b.again {
		fmt.Fprintf(&w, "\n%s\n", strings.ReplaceAll(line, "\n", " "))
	}
	for _, g := range groups {
		b.markdownRows(&w, g)
		b.markdownCosts(&w, g)
		b.markdownSpent(&w, g)
		if g.name == "core" {
			fmt.Fprintf(&w, "\n![Calls a second](%s/rates.svg)\n\n![Processor time of a call](%[1]s/cpu.svg)\n\n![Latency](%[1]s/latency.svg)\n", plots)
		}
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
	small := g.name == "core"
	header := "\n| calls | a second | p50 ms | p99 ms | busy after the last answer, s | CPU of a call, µs |"
	line := "\n|---|---|---|---|---|---|"
	if small {
		header, line = header+" memory before the rounds, MiB |", line+"---|"
	}
	header += line + "\n"
	for _, c := range b.costs {
		if c.Group != g.name {
			continue
		}
		fmt.Fprintf(w, "%s| %s | %.0f | %.2f | %.2f | %.1f | %s |", header, c.Name, median(c.Rate), median(c.P50), median(c.P99), median(c.Stored), c.cpu())
		if small {
			fmt.Fprintf(w, " %s |", c.memory())
		}
		header = ""
		w.WriteString("\n")
	}
}
