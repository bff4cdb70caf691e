package ci

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/report"
)

const (
	// maxTail is the most of what a command wrote that is kept: the end of it.
	maxTail = 48 << 10
	// keptOfOne and kept are how many runs that are over are kept, of one payer and of all.
	keptOfOne = 10
	kept      = 100
	keptTime  = 24 * time.Hour
)

// Payer is who a run counts for, and whose it is.
type Payer struct{ Tenant, Principal string }

// Run is a command that runs, or is over.
type Run struct {
	ID      string
	Root    string
	Command Command
	Started time.Time
	payer   Payer

	mu     sync.Mutex
	tail   []byte
	bytes  int64
	lines  int
	reader *report.Reader
	// news is what was not told yet; missed how much of it is left out.
	news   []byte
	missed int
	over   bool
	ended  time.Time
	result any
}

// Runs are all of them. The zero value is not ready; use NewRuns.
type Runs struct {
	atOnce int

	mu      sync.Mutex
	running map[string]*Run
	over    []*Run
}

// NewRuns is for so many commands at once; one payer has half of them, or one.
func NewRuns(atOnce int) *Runs { return &Runs{atOnce: atOnce, running: map[string]*Run{}} }

// Begin makes a run, if there is room for it.
func (rs *Runs) Begin(id string, payer Payer, root string, c Command) (*Run, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	own := 0
	for _, r := range rs.running {
		if r.payer == payer {
			own++
		}
	}
	share := max(1, rs.atOnce/2)
	switch {
	case rs.running[id] != nil:
		return nil, service.Errorf("this run is under way already: ci_result shows it")
	case own >= share:
		return nil, service.Errorf("%d of your commands run already, which is your share: nothing ran; try again when one is over", own)
	case len(rs.running) >= rs.atOnce:
		return nil, service.Errorf("%d commands run already: nothing ran; try again when one is over", len(rs.running))
	}
	r := &Run{ID: id, Root: root, Command: c, payer: payer, Started: time.Now(), reader: report.NewReader()}
	rs.running[id] = r
	return r, nil
}

// End keeps how a run ended; nil keeps nothing.
func (rs *Runs) End(r *Run, result any) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.running, r.ID)
	if result == nil {
		return
	}
	r.mu.Lock()
	r.over, r.ended, r.result = true, time.Now(), result
	r.tail, r.news, r.reader = nil, nil, nil
	r.mu.Unlock()
	own := 0
	rs.over = slices.DeleteFunc(append([]*Run{r}, rs.over...), func(old *Run) bool {
		if old.payer == r.payer {
			own++
		}
		return old.payer == r.payer && own > keptOfOne || time.Since(old.ended) > keptTime || old != r && old.ID == r.ID
	})
	rs.over = rs.over[:min(len(rs.over), kept)]
}

// Find finds a run of a payer. result is nil while it is under way.
func (rs *Runs) Find(id string, payer Payer) (r *Run, result any, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.running[id]; r != nil && r.payer == payer {
		return r, nil, nil
	}
	for _, r := range rs.over {
		if r.ID == id && r.payer == payer && time.Since(r.ended) < keptTime {
			return r, r.result, nil
		}
	}
	return nil, nil, service.Errorf("there is no such run of yours here: the last %d are kept, for a day, by the instance that ran them", keptOfOne)
}

// maxNews is the most output that is told at a time.
const maxNews = 8 << 10

// Write takes what the command writes.
func (r *Run) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return len(b), nil
	}
	r.bytes += int64(len(b))
	r.lines += strings.Count(string(b), "\n")
	r.tail = last(append(r.tail, b...), maxTail)
	before := len(r.news) + len(b)
	r.news = last(append(r.news, b...), maxNews)
	r.missed += before - len(r.news)
	return r.reader.Write(b)
}

// last keeps the end, and gives room back only now and then.
func last(b []byte, most int) []byte {
	if len(b) <= 2*most {
		return b
	}
	return append(b[:0], b[len(b)-most:]...)
}

// News is what was written since it was last asked for, without colours, and how many
// bytes of it are left out.
func (r *Run) News() (text string, missed, lines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.news[max(0, len(r.news)-maxNews):]
	missed = r.missed + len(r.news) - len(end)
	text = report.Plain(string(end))
	r.news, r.missed = r.news[:0], 0
	return text, missed, r.lines
}

// Tail is the end of what was written, and how much was written.
func (r *Run) Tail() (text string, written int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.tail[max(0, len(r.tail)-maxTail):]
	return report.Plain(string(end)), r.bytes
}

// Report is what the output says of tests; nil for nothing.
func (r *Run) Report() *report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader.Report()
}
