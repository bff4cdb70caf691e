package top_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/busbar/internal/top"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// slow are calls of about a millisecond, and others of about a second.
func slow(quick, slow int64) bus.Durations {
	d := make(bus.Durations, 80)
	d[36], d[76] = quick, slow
	return d
}

// Rates are what happened between two looks; who has started again has none.
func TestLines(t *testing.T) {
	t.Parallel()
	before := []bus.Reading{
		{Service: "text", Instance: "a", Stats: bus.Stats{Served: 100, Failed: 10, TookNano: 1e9, Durations: slow(100, 0)}},
		{Service: "text", Instance: "again", Stats: bus.Stats{Served: 1000}},
	}
	now := []bus.Reading{
		{Service: "text", Instance: "new", Stats: bus.Stats{Served: 5}},
		{Service: "text", Instance: "again", Stats: bus.Stats{Served: 3}},
		{Service: "text", Instance: "a", Version: "1\x1b[2J", Stats: bus.Stats{Served: 140, Failed: 12, TookNano: 3e9, Durations: slow(139, 1), Running: 4, Waiting: 5, Slots: 4}},
		{Service: "audit", Instance: "z"},
	}
	lines := top.Lines(before, now, 2*time.Second)
	if len(lines) != 4 || lines[0].Service != "audit" {
		t.Fatalf("%+v", lines)
	}
	if a := lines[1]; a.Calls != 20 || a.Errors != 1 || a.MS != 50 || a.P50 < 0.8 || a.P50 > 1.3 || a.P99 < 1 || a.Running != 4 || a.Waiting != 5 || a.Served != 140 {
		t.Errorf("%+v", a)
	}
	for _, l := range lines[2:] {
		if l.Calls != 0 || l.MS != 0 || l.P50 != 0 || l.P99 != 0 {
			t.Errorf("%+v", l)
		}
	}
	table := top.Table(lines, false, terminal.Style{}, 60, 6)
	for line := range strings.Lines(table) {
		if terminal.Cells(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("too wide: %q", line)
		}
	}
	if strings.Contains(table, "\x1b") || !strings.Contains(table, "2 services, 4 instances: 20.0 calls/s") || !strings.Contains(table, "and 2 more") {
		t.Errorf("the table is\n%s", table)
	}
	unready := top.Lines(nil, []bus.Reading{{Service: "a"}, {Service: "resource", NotReady: "database: its disk is full"}}, 0)
	if table := top.Table(unready, false, terminal.Style{}, 120, 5); !strings.Contains(table, "1 not ready") || !strings.Contains(table, "resource") {
		t.Errorf("an instance that is not ready is not shown first:\n%s", table)
	}
	// The columns that say whether more instances are needed are there at any width, and
	// instances in trouble at any height.
	for width, want := range map[int][]string{
		120: {"SERVED", "P50 MS", "INSTANCE", "WAITING"}, 80: {"INSTANCE", "P50 MS", "P99 MS", "ERRORS/S", " ERRORS", "SLOTS", "WAITING"}, 40: {"CALLS/S", "SLOTS", "WAITING"},
	} {
		table := top.Table(lines, false, terminal.Style{}, width, 5)
		for _, title := range want {
			if !strings.Contains(table, title) {
				t.Errorf("%d columns lack %s:\n%s", width, title, table)
			}
		}
		if !strings.Contains(table, "4/4") {
			t.Errorf("who has calls that wait is not shown first:\n%s", table)
		}
	}
}

// Tools are counted over all instances, and numbers are next to names however wide the screen is.
func TestToolLines(t *testing.T) {
	t.Parallel()
	reading := func(instance string, served, failed int64) bus.Reading {
		return bus.Reading{Service: "text", Instance: instance, Stats: bus.Stats{Served: served}, Tools: map[string]bus.ToolStats{"say": {Served: served, Failed: failed, TookNano: served * 1e6}}}
	}
	lines := top.ToolLines([]bus.Reading{reading("a", 10, 0)}, []bus.Reading{reading("a", 30, 4), reading("new", 5, 1)}, 2*time.Second)
	if len(lines) != 1 {
		t.Fatalf("%+v", lines)
	}
	if l := lines[0]; l.Tool != "say" || l.Calls != 10 || l.Errors != 2 || l.MS != 1 || l.Served != 35 || l.Failed != 5 {
		t.Errorf("%+v", l)
	}
	for _, width := range []int{80, 160} {
		table := top.Table(lines, true, terminal.Style{}, width, 10)
		if !strings.Contains(table, "1 tools of 1 services") || !strings.Contains(table, "\nsay          text ") || !strings.Contains(table, "35") {
			t.Errorf("%d columns:\n%s", width, table)
		}
		if table := top.Table([]top.Line{{Service: "text", Instance: "abc", Failed: 7}}, false, terminal.Style{}, width, 10); !strings.Contains(table, "\ntext         abc ") || !strings.Contains(table, " 7") {
			t.Errorf("%d columns:\n%s", width, table)
		}
	}
}

// A real service is shown with what it served; the screen follows its size, and q ends.
func TestRun(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	s := service.New("echo", service.WithVersion("1.2.3"))
	service.AddTool(s, service.Tool{Name: "echo", Description: "Says it again.", ReadOnly: true}, func(context.Context, *service.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop(context.WithoutCancel(t.Context())) })
	var once bytes.Buffer
	var said struct {
		Instances []top.Line `json:"instances"`
	}
	bustest.Eventually(t, "the service answers within the time of a look", func() bool {
		once.Reset()
		if err := top.Run(t.Context(), conn, top.Options{Every: 200 * time.Millisecond, Once: true, JSON: true}, &once); err != nil {
			t.Fatal(err)
		}
		err := json.Unmarshal(once.Bytes(), &said)
		return err != nil || len(said.Instances) > 0
	})
	if err := json.Unmarshal(once.Bytes(), &said); err != nil || len(said.Instances) != 1 || said.Instances[0].Service != "echo" || said.Instances[0].Version != "1.2.3" {
		t.Errorf("once: %v, %s", err, &once)
	}
	keys, resized := make(chan byte), make(chan struct{})
	var mu sync.Mutex
	width := 120
	o := top.Options{Every: 50 * time.Millisecond, Keys: keys, Resized: resized, Screen: func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return width, 20
	}}
	out := &bustest.Log{}
	ended := make(chan error, 1)
	go func() { ended <- top.Run(t.Context(), conn, o, out) }()
	bustest.Eventually(t, "the service is on the screen", func() bool { return strings.Contains(out.String(), "echo") })
	mu.Lock()
	width = 40
	mu.Unlock()
	resized <- struct{}{}
	bustest.Eventually(t, "lines are cut to the new width", func() bool { return strings.Contains(out.String(), "…\x1b[K") })
	keys <- 'x'
	keys <- 'q'
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// An old look is not shown as if it were new.
	leaving, gone := bustest.Join(t, url), &bustest.Log{}
	go func() { ended <- top.Run(t.Context(), leaving, o, gone) }()
	bustest.Eventually(t, "the service is on the screen again", func() bool { return strings.Contains(gone.String(), "echo") })
	leaving.Close()
	bustest.Eventually(t, "it says that the bus is away", func() bool { return strings.Contains(gone.String(), "no answer since ") })
	keys <- 'q'
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
