package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// openTime bounds the opening of all streams, cutTime how long the edge may keep who does not read.
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
	for deadline := time.Now().Add(time.Minute); ; _ = pause(ctx, time.Second) {
		after := w.sizes(part)
		if after.files <= before.files+20 {
			w.result.row("after they left: descriptors, memory", "as before", "%d (%d before), %.0f MiB (%.0f MiB)", after.files, before.files, after.memory/(1<<20), before.memory/(1<<20))
			return nil
		}
		if time.Now().After(deadline) {
			w.result.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("%s has %d descriptors a minute after all streams ended, %d before", part, after.files, before.files)})
			return nil
		}
	}
}

// stuck has readers ask for some megabytes each and never read, while others call.
func (w *world) stuck(ctx context.Context, edge string, n int) error {
	const uri = "faults:large"
	body := fmt.Sprintf(`{"uri":%q,"text":%q}`, uri, strings.Repeat("x", 500_000))
	if a := caller.REST(ctx, edge, caller.Call{Tool: "create_resource", Arguments: body, Key: uri}); !a.OK {
		return fmt.Errorf("the large resource was not made: %v", a)
	}
	reads := load.Load{Workers: 4, Only: []history.Kind{history.ReadOnce}}
	quiet, err := w.under(ctx, reads, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	// The kernel takes some 3 MB for who does not read, and an answer has 128 KiB. Beyond
	// that the edge has to wait.
	const asked = 48
	request := fmt.Sprintf("POST /tools/read_resource HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"uri\":%q}", edge, len(uri)+10, uri)
	request = strings.Repeat(request, asked)
	var cut []time.Duration
	var mu sync.Mutex
	peak := 0.0
	reads.Edges = []string{edge}
	busy, err := w.under(ctx, reads, func(ctx context.Context) error {
		var all sync.WaitGroup
		for range n {
			_ = pause(ctx, 50*time.Millisecond) // what they fetch is not to be what others wait for
			all.Go(func() {
				took, err := neverRead(edge, request)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					w.result.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("a reader that does not read: %v", err)})
					return
				}
				cut = append(cut, took)
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for {
			peak = max(peak, w.sizes("edge-1").memory)
			select {
			case <-done:
				return nil
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	if err != nil {
		return err
	}
	for _, c := range busy {
		if !c.OK() {
			w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: fmt.Sprintf("beside readers that do not read: %v", c.Last().Answer)})
		}
	}
	w.result.row("readers that never read, cut after: p50 / worst", "10 s", "%d, %v / %v", len(cut), quantile(cut, 0.5), quantile(cut, 1))
	w.result.row("the edge meanwhile", "512 MiB", "%.0f MiB at most", peak/(1<<20))
	w.result.row("calls of others, p99 without and with them", "10 % apart", "%v, %v", quantile(tooks(quiet), 0.99), quantile(tooks(busy), 0.99))
	return nil
}

func tooks(calls []history.Call) (all []time.Duration) {
	for _, c := range calls {
		all = append(all, c.Took())
	}
	return all
}

// neverRead asks and does not read, until the edge ends the connection. The kernel is
// told to take little for it.
func neverRead(edge, request string) (time.Duration, error) {
	d := net.Dialer{Timeout: 10 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if err == nil {
			err = failed
		}
		return err
	}}
	conn, err := d.Dial("tcp", edge)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	began := time.Now()
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	// Writing shows that the other end has gone, without reading. It is the beginning of
	// one more request, which the edge would come to after all others.
	for time.Since(began) < cutTime {
		time.Sleep(250 * time.Millisecond)
		if _, err := io.WriteString(conn, "\r\n"); err != nil {
			return time.Since(began), nil
		}
	}
	return 0, fmt.Errorf("is still connected after %v", cutTime)
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

// size is what a process has.
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
