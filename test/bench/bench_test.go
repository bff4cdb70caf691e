package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// serve starts a server, and returns the requests for it.
func serve(t *testing.T, h http.HandlerFunc) *load.Target {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s := &system{address: srv.Listener.Addr().String()}
	return call{tool: "echo", arguments: "{}", want: "right"}.modern(s)
}

func connect(t *testing.T, targets ...*load.Target) load.Clients {
	t.Helper()
	one, err := load.Connect(targets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return load.Clients{one}
}

// A server that stands still for a while is late for all calls that were due meanwhile,
// not for one alone.
func TestOpenLoopCountsCallsThatWait(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	const still = 500 * time.Millisecond
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			time.Sleep(still)
		}
		_, _ = io.WriteString(w, "right")
	})
	r, err := connect(t, target).Open(t.Context(), 100, still)
	if err != nil {
		t.Fatal(err)
	}
	if r.Calls != 50 {
		t.Errorf("%d calls, want 50: one each 10 ms", r.Calls)
	}
	if half := r.Quantile(0.5); half < still/4 {
		t.Errorf("half of the calls took %v or less, although the server stood still for %v", half, still)
	}
}

func TestWrongAnswersEndTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another status":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "status 503"},
		"another answer":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "left") }, "does not contain"},
		"the tool failed":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `right "isError":true`) }, "it contains"},
		"too short":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "right") }, "5 bytes, not 6"},
		"wrong after a time": {later(2), "does not contain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := serve(t, c.answer)
			if name == "too short" {
				target.Size = 6
			}
			if _, err := connect(t, target).Closed(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the round ended with %v, want %q", err, c.want)
			}
		})
	}
}

// later is right so often, and then not.
func later(right int64) http.HandlerFunc {
	var calls atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		answer := "right"
		if calls.Add(1) > right {
			answer = "wrong"
		}
		_, _ = io.WriteString(w, answer)
	}
}

// Answers in chunks, such as SSE, are whole; so are pages that are asked for in turn.
func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 3)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		for range 3 {
			_, _ = io.WriteString(w, "right"+strings.Repeat(" ", 10_000))
			w.(http.Flusher).Flush()
		}
	})
	target.Times, target.Size = 3, 30_015
	s := &system{address: target.Address}
	one, err := load.Connect(beside(s, target, 7), beside(s, target, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for range 3 {
		if err := one.Call(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"/mcp/7", "/mcp/8", "/mcp/7"} {
		if got := <-paths; got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
}

func TestProcessorTimeOfChildrenCounts(t *testing.T) {
	t.Parallel()
	p, err := process.Start(process.Command{
		Name: "parent", Path: "/bin/sh", Dir: t.TempDir(),
		// A child works, ends and is waited for.
		Args: []string{"-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo it is ready: mcp=http://x/mcp; exec sleep 600"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Stop() }()
	if p.Ready["mcp"] != "http://x/mcp" {
		t.Errorf("the ready line said %v", p.Ready)
	}
	used, err := p.Used()
	if err != nil || used < 20*time.Millisecond {
		t.Errorf("used %v %v", used, err)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "performance.md")
	b := &bench{options: options{rounds: 3, round: time.Second, connections: 32}}
	if err := b.write(page, time.Minute); err == nil {
		t.Error("a page that is not there was written")
	}
	before := "# By hand\n\n" + pageBegin + "old\n" + pageEnd + "\nMore by hand.\n"
	if err := os.WriteFile(page, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	b.add(row{Group: "core", What: "a <ratio>", Of: []float64{0.9, 0.5, 0.7}, Want: 0.7})
	b.costs = []cost{
		{Group: "core", Name: "one & all", Rate: []float64{3, 1, 2}, P50: []float64{1}, P99: []float64{1}, Stored: []float64{0}, Process: []string{"a"}, Memory: []float64{7}, CPU: [][]float64{{100}}},
		{Group: "core", Name: "apart", Rate: []float64{3, 1, 2}, P50: []float64{1}, P99: []float64{1}, Stored: []float64{0}, Process: []string{"edge", "x", "x"}, Memory: []float64{1, 2, 3}, CPU: [][]float64{{100}, {20}, {30}}},
	}
	b.curves = []curve{{Group: "core", Name: "one", Rate: 1000, Quantiles: []float64{0.1, 1, 2, 30, 400}}}
	for range 2 { // a page that was written is written again
		if err := b.write(page, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# By hand\n", "\nMore by hand.\n", "| a <ratio> | 0.70 | 0.50 | 0.90 | at least 0.70 | yes |", "edge 100, x 50, all 150", "edge 1, x 5, all 6"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old\n") {
		t.Error("the page has its old figures")
	}
	for _, name := range []string{"rates", "cpu", "latency"} {
		f, err := os.Open(filepath.Join(filepath.Dir(page), "performance", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for d := xml.NewDecoder(f); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", name, err)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--only nobody": "no such group", "--rounds 0": "--rounds", "--seconds x": "seconds", "--connections 0": "--connections", "core": "is no flag", "--out x --only core": "--only",
		"--out main.go": "say where the figures go", "--out nowhere.md": "no such file",
	} {
		if err := run(context.Background(), strings.Fields(flags)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}
