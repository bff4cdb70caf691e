package soak

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/test/caller"
)

const (
	mib = 1 << 20
	// sampleEvery is how often everything is measured.
	sampleEvery = 5 * time.Second
)

// series is one thing measured again and again.
type series struct {
	name, unit string
	// from is the time since the soak's start by which it must have stopped growing; 0 if it is
	// shown but not judged.
	from time.Duration
	// room is the growth that still counts as flat.
	room float64
	// most is a bound it must stay under; 0 for none.
	most   float64
	points []point
}

type point struct{ at, value float64 }

// measuring has the measurements so far.
type measuring struct {
	f     *fleet
	total time.Duration
	began time.Time
	nats  *nats.Conn
	js    jetstream.JetStream
	end   context.CancelFunc
	done  chan struct{}

	mu  sync.Mutex
	all []*series
}

func startMeasuring(t *testing.T, f *fleet, total time.Duration) *measuring {
	t.Helper()
	conn, err := nats.Connect("nats://"+f.nats.argv[1], nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &measuring{f: f, total: total, began: time.Now(), nats: conn, js: js, end: cancel, done: make(chan struct{})}
	t.Cleanup(func() { cancel(); conn.Close() })
	go func() {
		defer close(m.done)
		for tick := time.NewTicker(sampleEvery); ; {
			m.sample(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return m
}

func (m *measuring) stop() {
	m.end()
	<-m.done
}

// add adds a point; what a process cannot say just now is left out.
func (m *measuring) add(name, unit string, value float64, describe func(*series)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.all, func(s *series) bool { return s.name == name })
	if i < 0 {
		i = len(m.all)
		m.all = append(m.all, &series{name: name, unit: unit})
		describe(m.all[i])
	}
	m.all[i].points = append(m.all[i].points, point{time.Since(m.began).Seconds(), value})
}

// latest is the last value of a series, 0 before the first.
func (m *measuring) latest(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.all {
		if s.name == name && len(s.points) > 0 {
			return s.points[len(s.points)-1].value
		}
	}
	return 0
}

func (m *measuring) sample(ctx context.Context) {
	flat := func(room float64) func(*series) {
		return func(s *series) { s.from, s.room = m.total/3, room }
	}
	kept, listed := m.streams(ctx)
	for _, p := range m.f.all {
		// The memory of a process that is killed again and again cannot be judged.
		if pid := p.pid(); pid != 0 && !strings.HasSuffix(p.name, "-1") {
			rss, ok := residentBytes(pid)
			if p == m.f.nats {
				// It has what it keeps in memory, with an index that is as large.
				rss, ok = rss-2*kept, ok && listed
			}
			if ok {
				m.add(p.name+" memory", "MiB", rss/mib, flat(24))
			}
			if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
				m.add(p.name+" files", "", float64(len(files)), flat(32))
			}
		}
	}
	if n, ok := metric(ctx, m.f.edges[0].metrics, "go_goroutines"); ok {
		m.add(goroutines, "", n, flat(150))
	}
}

// streams measures what JetStream keeps, and returns the sum, bytes.
func (m *measuring) streams(ctx context.Context) (kept float64, listed bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	list := m.js.ListStreams(ctx)
	for info := range list.Info() {
		kept += float64(info.State.Bytes)
		bytes, age, most := float64(info.State.Bytes)/mib, info.Config.MaxAge, float64(info.Config.MaxBytes)/mib
		m.add(strings.TrimPrefix(info.Config.Name, "KV_"), "MiB", bytes, func(s *series) {
			if most > 0 {
				s.most = 0.9 * most
			}
			// A stream stops growing when it holds as much as it keeps, and a queue at once. A
			// stream that keeps messages for longer than the soak grows all the time.
			from := m.total / 3
			if info.Config.Retention != jetstream.WorkQueuePolicy && info.Config.Name != "AUDIT" {
				from = max(from, age+time.Minute)
			}
			if from <= m.total*2/3 {
				s.from, s.room = from, 2
			}
		})
	}
	return kept, list.Err() == nil
}

func residentBytes(pid int) (float64, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(b))
	if err != nil || len(f) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseFloat(f[1], 64)
	return pages * float64(os.Getpagesize()), err == nil
}

func metric(ctx context.Context, address, name string) (float64, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, false
	}
	r.Header.Set("Authorization", "Bearer "+metricsToken)
	resp, err := caller.Web.Do(r)
	if err != nil {
		return 0, false
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// growth returns the medians of the first and of the last quarter of the values since the series
// must have stopped growing, and whether it has. Less than five minutes say nothing.
func (s *series) growth() (before, after float64, judged, flat bool) {
	middle := func(p []point) float64 {
		v := make([]float64, len(p))
		for i := range p {
			v[i] = p[i].value
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	p := s.points
	if s.from > 0 {
		p = slices.DeleteFunc(slices.Clone(p), func(p point) bool { return p.at < s.from.Seconds() })
	}
	if len(p) < 4 {
		return 0, 0, false, true
	}
	before, after = middle(p[:len(p)/4]), middle(p[len(p)-len(p)/4:])
	judged = s.from > 0 && p[len(p)-1].at-p[0].at >= 5*60
	return before, after, judged, !judged || after <= 1.25*before+s.room
}

// goroutines is the series of goroutines of the edge that is never killed.
const goroutines = "edge-0 goroutines"

// judge reports series that grew but must not, and series that could not be measured.
func (m *measuring) judge(w *world) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.all, func(s *series) bool { return s.name == goroutines }) {
		w.fault("it was never measured: "+goroutines, "/metrics does not say")
	}
	for _, s := range m.all {
		if before, after, _, flat := s.growth(); !flat {
			w.fault("it grows: "+s.name, "from %.1f to %.1f %s", before, after, s.unit)
		}
		if last := s.points[len(s.points)-1].value; s.most > 0 && last > s.most {
			w.fault("it is full: "+s.name, "%.1f %s", last, s.unit)
		}
	}
}
