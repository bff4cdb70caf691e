package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A plot is this wide; its text is as large as the text of the page around it.
const (
	plotWidth  = 760
	plotMargin = 190 // for names, at the left
	plotRow    = 30
	plotTop    = 44
)

// colours is the palette of Okabe and Ito, which all people can tell apart. Processes take them in
// order.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#777777"}

// svg is a drawing that is being made.
type svg struct {
	strings.Builder
}

func newSVG(height int, title string) *svg {
	s := &svg{}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" font-family="sans-serif" font-size="13" role="img">`+"\n", plotWidth, height, height)
	// Readable on a dark page too.
	s.rect(0, 0, plotWidth, float64(height), "#ffffff")
	s.text(12, 22, "start", `font-size="15" font-weight="bold"`, title)
	return s
}

func (s *svg) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, fill)
}

func (s *svg) line(x1, y1, x2, y2 float64, more string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, more)
}

func (s *svg) text(x, y float64, anchor, more, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(text))
}

func (s *svg) end() []byte { return []byte(s.String() + "</svg>\n") }

// plotRates is calls a second of each contender: a bar to the median, a line from the
// lowest to the highest round.
func plotRates(costs []cost) []byte {
	s := newSVG(plotTop+plotRow*len(costs)+10, "Small calls a second: median, lowest and highest round")
	most := 0.0
	for _, c := range costs {
		most = max(most, slices.Max(c.Rate))
	}
	scale := (plotWidth - plotMargin - 90) / most
	for i, c := range costs {
		y := float64(plotTop + i*plotRow)
		s.text(plotMargin-8, y+15, "end", "", c.Name)
		s.rect(plotMargin, y, median(c.Rate)*scale, plotRow-10, colours[0])
		low, high := plotMargin+slices.Min(c.Rate)*scale, plotMargin+slices.Max(c.Rate)*scale
		s.line(low, y+10, high, y+10, `stroke="#000000" stroke-width="1.5"`)
		s.text(high+8, y+15, "start", "", fmt.Sprintf("%.0f", median(c.Rate)))
	}
	return s.end()
}

// plotCPU is the processor time of a call, parted by process.
func plotCPU(costs []cost) []byte {
	var names []string
	most := 0.0
	for _, c := range costs {
		all := 0.0
		for i, name := range c.Process {
			if len(c.Process) > 1 && !slices.Contains(names, name) {
				names = append(names, name)
			}
			all += median(c.CPU[i])
		}
		most = max(most, all)
	}
	colour := func(c cost, name string) string {
		if len(c.Process) == 1 {
			return colours[len(colours)-1]
		}
		return colours[slices.Index(names, name)%(len(colours)-1)]
	}
	s := newSVG(plotTop+plotRow*(len(costs)+1)+10, "Processor time of a small call in µs, by process, without the caller's")
	scale := (plotWidth - plotMargin - 60) / most
	for i, c := range costs {
		y, x := float64(plotTop+i*plotRow), float64(plotMargin)
		s.text(plotMargin-8, y+15, "end", "", c.Name)
		for j, name := range c.Process {
			w := median(c.CPU[j]) * scale
			s.rect(x, y, w, plotRow-10, colour(c, name))
			x += w
		}
		s.text(x+8, y+15, "start", "", fmt.Sprintf("%.0f", (x-plotMargin)/scale))
	}
	x, y := float64(plotMargin), float64(plotTop+len(costs)*plotRow)
	for _, name := range append(names, "one process") {
		fill := colours[len(colours)-1]
		if at := slices.Index(names, name); at >= 0 {
			fill = colours[at%(len(colours)-1)]
		}
		s.rect(x, y+4, 12, 12, fill)
		s.text(x+16, y+15, "start", "", name)
		x += 30 + 7.2*float64(len(name))
	}
	return s.end()
}

// plotLatency is latency by the share of calls that took no longer, one line for each
// contender and rate. The scale of time is logarithmic.
func plotLatency(curves []curve) []byte {
	const height, bottom, left = 300, 40, 60.0
	s := newSVG(plotTop+height+bottom+22*len(curves), "Latency from the moment a call was due, in ms")
	low, high := math.Inf(1), 0.0
	for _, c := range curves {
		low, high = min(low, c.Quantiles[0]), max(high, slices.Max(c.Quantiles))
	}
	low, high = math.Floor(math.Log10(max(low, 0.001))), math.Ceil(math.Log10(max(high, 0.002)))
	at := func(ms float64) float64 {
		return plotTop + height - (math.Log10(max(ms, 0.001))-low)/(high-low)*height
	}
	across := func(i int) float64 { return left + float64(i)*(plotWidth-left-40)/float64(len(quantiles)-1) }
	for decade := low; decade <= high; decade++ {
		y := at(math.Pow(10, decade))
		s.line(left, y, plotWidth-40, y, `stroke="#cccccc"`)
		s.text(left-8, y+4, "end", "", fmt.Sprintf("%g", math.Pow(10, decade)))
	}
	for i, q := range quantiles {
		name := fmt.Sprintf("p%g", 100*q)
		if q == 0 {
			name = "least"
		}
		s.text(across(i), plotTop+height+20, "middle", "", name)
	}
	for n, c := range curves {
		colour := colours[n%len(colours)]
		for i := range c.Quantiles {
			s.rect(across(i)-3, at(c.Quantiles[i])-3, 6, 6, colour)
			if i > 0 {
				s.line(across(i-1), at(c.Quantiles[i-1]), across(i), at(c.Quantiles[i]), `stroke="`+colour+`" stroke-width="2"`)
			}
		}
		y := float64(plotTop + height + bottom + 22*n)
		s.rect(left, y, 12, 12, colour)
		s.text(left+20, y+11, "start", "", fmt.Sprintf("%s, %.0f calls/s are due", c.Name, c.Rate))
	}
	return s.end()
}
