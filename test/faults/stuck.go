package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// waves is how many times readers come, all of which are stuck at once.
const waves = 5

// stuck has readers ask for more than the kernel takes for them and never read, while
// others call.
func (w *world) stuck(ctx context.Context, edge string, n int) error {
	// One address may leave 64 MiB unread at an edge.
	const uri, size = "faults:large", 300_000
	body := fmt.Sprintf(`{"uri":%q,"text":%q}`, uri, strings.Repeat("x", size))
	if a := caller.REST(ctx, edge, caller.Call{Tool: "create_resource", Arguments: body, Key: uri}); !a.OK {
		return fmt.Errorf("the large resource was not made: %v", a)
	}
	const asked = 16
	request := fmt.Sprintf("POST /tools/read_resource HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"uri\":%q}", edge, len(uri)+10, uri)
	request = strings.Repeat(request, asked)
	var (
		cut            []time.Duration
		alone, beside  []oracle.Span // without readers, and while all of a wave are stuck
		memory, unread float64
		kernel         = kernelMemory()
	)
	// At the edge of the readers, of a tool that takes no time of its own. Others are
	// measured with and without readers in turn, because the machine has other work as well.
	reads := load.Load{Workers: 4, Only: []history.Kind{history.ReadOnce}, Edges: []string{edge}, AtOnce: true}
	calls, err := w.under(ctx, reads, func(ctx context.Context) error {
		for range waves {
			_ = pause(ctx, time.Second)
			s := oracle.Span{From: time.Now()}
			_ = pause(ctx, 6*time.Second)
			s.To = time.Now()
			alone = append(alone, s)
			wave := w.never(ctx, edge, request, n/waves)
			for waiting := true; waiting; {
				select {
				case <-wave.over:
					waiting = false
				case <-time.After(100 * time.Millisecond):
					memory = max(memory, w.sizes("edge-1").memory)
					unread = max(unread, kernelMemory()-kernel)
				}
			}
			cut = append(cut, wave.cut...)
			beside = append(beside, wave.stuck)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, c := range calls {
		if !c.OK() {
			w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: fmt.Sprintf("beside readers that do not read: %v", c.Last().Answer)})
		}
	}
	w.result.row("readers that never read, cut after: p50 / worst", "10 s", "%d, %d at a time, %v / %v", len(cut), n/waves, quantile(cut, 0.5), quantile(cut, 1))
	w.result.row("the edge meanwhile", "512 MiB", "%.0f MiB at most; the kernel had %.0f MiB more for TCP than before", memory/(1<<20), unread/(1<<20))
	quiet, busy, all := tooks(calls, alone), tooks(calls, beside), tooks(calls, []oracle.Span{{From: alone[0].From, To: time.Now()}})
	w.result.row("calls of others, p50 / p99: without readers, beside stuck ones, and with the time in which those come", "10 % apart", "%v / %v (%d), %v / %v (%d), %v / %v (%d)",
		quantile(quiet, 0.5), quantile(quiet, 0.99), len(quiet), quantile(busy, 0.5), quantile(busy, 0.99), len(busy), quantile(all, 0.5), quantile(all, 0.99), len(all))
	return nil
}

// tooks are how long calls took that were made within one of the spans.
func tooks(calls []history.Call, within []oracle.Span) (all []time.Duration) {
	for _, c := range calls {
		if slices.ContainsFunc(within, func(s oracle.Span) bool { return s.From.Before(c.Began) && s.To.After(c.Ended) }) {
			all = append(all, c.Took())
		}
	}
	return all
}

// kernelMemory is the kernel's memory for TCP, in bytes: mostly bytes that were written and not
// read. 0 if the kernel does not say.
func kernelMemory() float64 {
	raw, _ := os.ReadFile("/proc/net/sockstat")
	_, line, _ := strings.Cut(string(raw), "TCP: ")
	var used, orphans, waits, all, pages int
	_, _ = fmt.Sscanf(line, "inuse %d orphan %d tw %d alloc %d mem %d", &used, &orphans, &waits, &all, &pages)
	return float64(pages * os.Getpagesize())
}

// wave is readers that are all stuck at once, until over.
type wave struct {
	over  chan struct{}
	cut   []time.Duration
	stuck oracle.Span
}

// never starts a wave of n readers.
func (w *world) never(ctx context.Context, edge, request string, n int) *wave {
	v := &wave{over: make(chan struct{})}
	var mu sync.Mutex
	var all sync.WaitGroup
	reader := func() {
		took, err := neverRead(edge, request)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			w.result.found(oracle.Finding{Oracle: oracle.Grown, Text: fmt.Sprintf("a reader that does not read: %v", err)})
			return
		}
		if v.cut == nil {
			v.stuck.To = time.Now()
		}
		v.cut = append(v.cut, took)
	}
	go func() {
		defer close(v.over)
		for range n {
			all.Go(reader)
			_ = pause(ctx, 20*time.Millisecond)
		}
		mu.Lock()
		v.stuck.From = time.Now().Add(time.Second) // the last one is served
		mu.Unlock()
		all.Wait()
	}()
	return v
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
