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
	// maxTail is how many bytes of the end of a command's output are kept.
	//limit:workspace the end of a command's output, which is kept | what came before is dropped
	maxTail = 48 << 10
	// keptOfOne and kept are how many finished runs are kept, of one account and of all.
	//limit:workspace kept runs of commands of one principal | the oldest are removed
	keptOfOne = 10
	kept      = 100
	//limit:workspace time that a run of a command is kept | it is removed
	keptTime = 24 * time.Hour
)

// Account identifies the owner of a run, whose share it uses.
type Account struct{ Tenant, Principal string }

// Run is a command that is running or finished.
type Run struct {
	ID      string
	Root    string
	Command Command
	Started time.Time
	account Account

	mu     sync.Mutex
	tail   []byte
	bytes  int64
	lines  int
	reader *report.Reader
	// news is the output that News has not returned yet; missed counts its dropped bytes.
	news   []byte
	missed int
	over   bool
	ended  time.Time
	result any
}

// Runs holds all runs. The zero value is not ready; use NewRuns.
type Runs struct {
	atOnce int

	mu      sync.Mutex
	running map[string]*Run
	over    []*Run
}

// NewRuns allows atOnce concurrent commands; one account may use half of them, but at least one.
func NewRuns(atOnce int) *Runs { return &Runs{atOnce: atOnce, running: map[string]*Run{}} }

// Begin starts a run if the limits allow it.
func (rs *Runs) Begin(id string, account Account, root string, c Command) (*Run, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	own := 0
	for _, r := range rs.running {
		if r.account == account {
			own++
		}
	}
	share := max(1, rs.atOnce/2)
	switch {
	case rs.running[id] != nil:
		return nil, service.Errorf("this run has already started; ci_result shows it")
	case own >= share:
		return nil, service.Errorf("%d of your commands are running, which is your limit; nothing ran; try again when one has finished", own)
	case len(rs.running) >= rs.atOnce:
		return nil, service.Errorf("%d commands are running, which is the limit; nothing ran; try again when one has finished", len(rs.running))
	}
	r := &Run{ID: id, Root: root, Command: c, account: account, Started: time.Now(), reader: report.NewReader()}
	rs.running[id] = r
	return r, nil
}

// End keeps the result of a run; a nil result is not kept.
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
		if old.account == r.account {
			own++
		}
		return old.account == r.account && own > keptOfOne || time.Since(old.ended) > keptTime || old != r && old.ID == r.ID
	})
	rs.over = rs.over[:min(len(rs.over), kept)]
}

// Find finds a run of an account. result is nil while it is running.
func (rs *Runs) Find(id string, account Account) (r *Run, result any, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.running[id]; r != nil && r.account == account {
		return r, nil, nil
	}
	for _, r := range rs.over {
		if r.ID == id && r.account == account && time.Since(r.ended) < keptTime {
			return r, r.result, nil
		}
	}
	return nil, nil, service.Errorf("this instance has no such run of yours; the instance that ran it keeps the last %d for a day", keptOfOne)
}

// maxNews is the largest output that News returns, in bytes.
const maxNews = 8 << 10

// Write receives the output of the command.
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

// last keeps the end of b. It copies only now and then, to free the memory of the beginning.
func last(b []byte, most int) []byte {
	if len(b) <= 2*most {
		return b
	}
	return append(b[:0], b[len(b)-most:]...)
}

// News returns the output since the last call, without colours, and how many bytes of it are missing.
func (r *Run) News() (text string, missed, lines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.news[max(0, len(r.news)-maxNews):]
	missed = r.missed + len(r.news) - len(end)
	text = report.Plain(string(end))
	r.news, r.missed = r.news[:0], 0
	return text, missed, r.lines
}

// Tail returns the end of the output, and the size of all of it.
func (r *Run) Tail() (text string, written int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.tail[max(0, len(r.tail)-maxTail):]
	return report.Plain(string(end)), r.bytes
}

// Report returns the test results in the output; nil for none.
func (r *Run) Report() *report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader.Report()
}
