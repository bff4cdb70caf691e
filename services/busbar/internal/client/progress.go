package client

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// eraseLine goes to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// progressLine is a line of a terminal that each progress replaces. Without progress it says
// what is waited for.
type progressLine struct {
	w     io.Writer
	width int
	// on is whether there is a terminal to show it.
	on bool
	// quiet is how long nothing is said while an answer is waited for.
	quiet time.Duration

	mu sync.Mutex
	// shown is whether there is a line, told whether that is progress.
	shown, told bool
}

func (l *progressLine) show(p Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = true
	l.write(progressText(p))
}

func (l *progressLine) write(text string) {
	if !l.on {
		return
	}
	l.shown = true
	// One column stays free: a full line would make some terminals scroll.
	fmt.Fprint(l.w, eraseLine+terminal.Clip(text, l.width-1))
}

// clear removes the line, if there is one.
func (l *progressLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.w, eraseLine)
	}
	l.shown, l.told = false, false
}

// wait says in the line, from quiet on, what is waited for and for how long, unless
// there is progress to show. answered ends that.
func (l *progressLine) wait(what string) (answered func()) {
	if !l.on {
		return func() {}
	}
	began, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(l.quiet)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			l.mu.Lock()
			if !l.told {
				l.write(terminal.SafeLine(what) + ", " + time.Since(began).Round(time.Second).String())
			}
			l.mu.Unlock()
		}
	}()
	return func() {
		close(end)
		<-ended
		l.clear()
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
