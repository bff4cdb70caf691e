package client

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// eraseLine goes to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// progressLine is a line of a terminal that each progress replaces.
type progressLine struct {
	w     io.Writer
	width int
	shown bool
}

func (l *progressLine) show(p Progress) {
	l.shown = true
	// One column stays free: a full line would make some terminals scroll.
	fmt.Fprint(l.w, eraseLine+terminal.Clip(progressText(p), l.width-1))
}

// clear removes the line, if there is one.
func (l *progressLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, eraseLine)
		l.shown = false
	}
}

// progressText is, for example, "42% (21/50) reading".
func progressText(p Progress) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	text := number(p.Progress)
	if p.Total != nil && *p.Total > 0 {
		share := math.Floor(100 * p.Progress / *p.Total)
		text = fmt.Sprintf("%3.0f%% (%s/%s)", min(max(share, 0), 100), number(p.Progress), number(*p.Total))
	}
	if p.Message != "" {
		text += " " + terminal.SafeLine(p.Message)
	}
	return text
}
