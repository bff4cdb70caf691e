package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// openTime bounds the opening of all streams, cutTime how long the edge may keep a client that does
// not read.
const (
	openTime = 2 * time.Minute
	cutTime  = time.Minute
)

// streams holds many idle streams at one edge, tells all of them one thing, and then has
// clients that ask for much and never read.
func streams(ctx context.Context, w *world) error {
	n := w.streams
	if w.full {
		n = 10000
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if most := int(limit.Max)/2 - 500; n > most {
		w.result.row("fewer streams", "", "%d and not %d: this machine gives a process %d descriptors", most, n, limit.Max)
		n = most
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	const part, told = "edge-1", "told:everybody"
	edge := w.fleet.At(part, "8000")
	before := w.sizes(part)
	held, err := listen(ctx, edge, n, told)
	if err != nil {
		return err
	}
	_ = pause(ctx, 5*time.Second) // what opening took is given back
	with := w.sizes(part)
	w.result.row("idle streams at one edge", "30 KiB each", "%d, %.1f KiB each, edge %.0f MiB", n, (with.memory-before.memory)/1024/float64(n), with.memory/(1<<20))

	began := time.Now()
	create := caller.REST(ctx, w.addresses()[1], caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"news"}`, told), Key: told})
	if !create.OK {
		return fmt.Errorf("the resource was not made: %v", create)
	}
	for deadline := time.After(time.Minute); held.heard.Load() < int64(n); {
		select {
		case <-deadline:
			w.result.found(oracle.Finding{Oracle: oracle.Forgotten, Text: fmt.Sprintf("%d of %d streams heard of a change within a minute", held.heard.Load(), n)})
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	w.result.row("all were told of a change after", "2 s", "%v", time.Since(began).Round(time.Millisecond))
	_ = pause(ctx, 2*time.Second)
	if twice := held.heard.Load() - int64(n); twice > 0 {
		w.result.found(oracle.Finding{Oracle: oracle.Doubled, Text: fmt.Sprintf("%d streams were told twice", twice)})
	}
	if gone := held.ended.Load(); gone > 0 {
		w.result.found(oracle.Finding{Oracle: oracle.Forgotten, Text: fmt.Sprintf("%d idle streams were ended", gone)})
	}
	if err := w.stuck(ctx, edge, max(n/10, 10)); err != nil {
		held.close()
		return err
	}
	held.close()
	return w.given(ctx, part, before)
}

// given waits until a part has given back what it had taken since before.
func (w *world) given(ctx context.Context, part string, before size) error {
	const (
		files = 20       // more than before
		room  = 64 << 20 // what a program keeps for its next calls
		bound = 5 * time.Minute
	)
	began, first := time.Now(), 0.0
	for ctx.Err() == nil {
		now, after := w.sizes(part), time.Since(began)
		if now.files <= before.files+files && first == 0 {
			first = now.memory
		}
		switch less := now.memory <= before.memory+room; {
		case first == 0 && after > time.Minute:
			w.result.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("%s has %d descriptors a minute after all streams ended, %d before", part, now.files, before.files)})
			return nil
		case first > 0 && (less || after > bound):
			w.result.row("after they left: descriptors, memory at once, and after "+after.Round(time.Second).String(), "as before", "%d (%d before), %.0f MiB, %.0f MiB (%.0f MiB before)",
				now.files, before.files, first/(1<<20), now.memory/(1<<20), before.memory/(1<<20))
			return nil
		}
		_ = pause(ctx, time.Second)
	}
	return ctx.Err()
}

// listening is many streams.
type listening struct {
	heard, ended atomic.Int64
	end          context.CancelFunc
	all          sync.WaitGroup
}

func (l *listening) close() { l.end(); l.all.Wait() }

// listen opens streams that wait for changes of a resource.
func listen(ctx context.Context, edge string, n int, uri string) (*listening, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &listening{end: cancel}
	opening := time.AfterFunc(openTime, cancel)
	defer opening.Stop()
	body := caller.MCP(1, mcp.MethodListen, fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, uri), caller.Capable("{}"))
	web := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	opened := make(chan error, n)
	slots := make(chan struct{}, 32) // that are being opened
	go func() {
		for range n {
			slots <- struct{}{}
			l.all.Go(func() {
				r, err := caller.New(ctx, http.MethodPost, edge, "/mcp", body, caller.ModernHeaders(mcp.MethodListen, "")...)
				var resp *http.Response
				if err == nil {
					resp, err = web.Do(r)
				}
				if err != nil {
					<-slots
					opened <- err
					return
				}
				defer func() { _ = resp.Body.Close() }()
				in := bufio.NewScanner(resp.Body)
				ready := false
				for in.Scan() {
					switch line := in.Text(); {
					case strings.Contains(line, "subscriptions/acknowledged"):
						ready = true
						<-slots
						opened <- nil
					case strings.Contains(line, "notifications/resources/updated"):
						l.heard.Add(1)
					}
				}
				if !ready {
					<-slots
					opened <- fmt.Errorf("a stream was not opened: %s %w", resp.Status, in.Err())
				} else if ctx.Err() == nil {
					l.ended.Add(1)
				}
			})
		}
	}()
	for range n {
		if err := <-opened; err != nil {
			cancel()
			return nil, err
		}
	}
	return l, nil
}

// size is the memory and the number of open files of a process.
type size struct {
	memory float64
	files  int
}

func (w *world) sizes(part string) (s size) {
	pid := w.fleet.PID(part)
	var total, resident float64
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		_, _ = fmt.Sscan(string(raw), &total, &resident)
	}
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return size{resident * float64(os.Getpagesize()), len(files)}
}
