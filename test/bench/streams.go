package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// changed is the notification that streams get.
const changed = "notifications/tools/list_changed"

// streams measures the cost of an idle stream to an edge, and the time until all streams are told
// of a change.
func (b *bench) streams(ctx context.Context) error {
	n := 10_000
	if b.smoke {
		n = 200
	}
	// A process needs a descriptor for each. Programs of Go take all that they may have.
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if most := int(min(limit.Max, 1<<20)) - 1000; n > most {
		b.say("streams: %d and not %d: a process may have %d descriptors", most, n, limit.Max)
		n = most
	}
	if err := b.idle(ctx, "modern", n, 30, func(s *system) func(int) ([]byte, error) {
		one := rpc(s, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`, "")
		return func(int) ([]byte, error) { return one, nil }
	}); err != nil {
		return err
	}
	return b.idle(ctx, "legacy", n, 30, func(s *system) func(int) ([]byte, error) {
		return func(int) ([]byte, error) {
			session, err := openSession(s)
			return fmt.Appendf(nil, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Protocol-Version: %s\r\nMcp-Session-Id: %s\r\n\r\n", s.address, legacy, session), err
		}
	})
}

// idle holds n streams at an edge of its own.
func (b *bench) idle(ctx context.Context, name string, n int, want float64, requests func(*system) func(int) ([]byte, error)) error {
	text := part{name: "text", service: "text"}
	s, err := b.fleet(1, text, benchPart("bench0"))
	if err != nil {
		return err
	}
	if err := await(ctx, small.modern(s)); err != nil {
		return err
	}
	edge := s.process("edge")
	before, err := b.atRest(ctx, edge)
	if err != nil {
		return err
	}
	begin := time.Now()
	all, err := load.Listen(ctx, s.address, n, changed, requests(s))
	if err != nil {
		return err
	}
	b.later(func() error { all.Close(); return nil })
	opened := time.Since(begin)
	with, err := b.atRest(ctx, edge)
	if err != nil {
		return err
	}
	each := float64(with-before) / 1024 / float64(n)
	b.say("streams: %s: %d opened in %v, %.1f KiB each, edge %d MiB before and %d MiB with them", name, n, opened.Round(time.Millisecond), each, before>>20, with>>20)
	b.add(row{Group: "streams", What: fmt.Sprintf("memory of an idle stream, %d of them, %s", n, name), Unit: "KiB", Of: []float64{each}, Want: want, AtMost: true})
	b.add(row{Group: "streams", What: "memory of the edge before them, " + name, Unit: "MiB", Of: []float64{float64(before) / (1 << 20)}})

	// A service comes, so the list of tools changes.
	used, err := edge.Used()
	if err != nil {
		return err
	}
	hearing, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.process("bench0").Stop(); err != nil {
		return err
	}
	spread, err := all.Heard(hearing)
	if err != nil {
		return err
	}
	after, err := edge.Used()
	if err != nil {
		return err
	}
	b.add(row{Group: "streams", What: fmt.Sprintf("list_changed to %d streams, %s, from the first that is told to the last", n, name), Unit: "ms", Of: []float64{ms(spread)}})
	b.add(row{Group: "streams", What: "CPU of the edge for each stream that is told, " + name, Unit: "µs", Of: []float64{us(after-used, n)}})
	all.Close()
	return nil
}

func (s *system) process(name string) *process.Process {
	for _, p := range s.processes {
		if p.Name == name {
			return p
		}
	}
	panic("there is no process " + name)
}

// atRest is the memory of a process once it does not change any more: what opening streams
// took is given back after a while.
func (b *bench) atRest(ctx context.Context, p *process.Process) (int64, error) {
	last := int64(0)
	for range 20 {
		pause := 3 * time.Second
		if b.smoke {
			pause = look
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now, err := p.Memory()
		if err != nil {
			return 0, err
		}
		if last != 0 && now > last-last/50 && now < last+last/50 {
			return now, nil
		}
		last = now
	}
	return last, nil
}
