package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// benchPart is an instance of the service whose tools cost nothing.
func benchPart(name string, env ...string) part {
	return part{name: "bench-service", service: name, env: append([]string{"BUSBAR_BENCH_NAME=" + name, "BUSBAR_BENCH_SLOTS=256"}, env...)}
}

// take is a call with arguments of n bytes. A string of a message has at most 512 KiB.
func take(n int) call {
	const most = 450 << 10
	var texts []string
	for left := n; left > 0; left -= most {
		texts = append(texts, `"`+strings.Repeat("x", min(left, most))+`"`)
	}
	return call{tool: "bench_take", arguments: `{"texts":[` + strings.Join(texts, ",") + `]}`, want: fmt.Sprintf(`"structuredContent":{"bytes":%d}`, n)}
}

// give is a call with a result of n bytes.
func give(n int) call {
	return call{tool: "bench_give", arguments: fmt.Sprintf(`{"bytes":%d}`, n), want: `"text":"xxx`, size: n}
}

// sizes are calls with small and large arguments and results, as processes, beside the
// floor that carries the same bytes.
func (b *bench) sizes(ctx context.Context) error {
	fleet, err := b.fleet(1, benchPart("bench"))
	if err != nil {
		return err
	}
	// The largest message of a client is 960 KiB.
	calls := []struct {
		name string
		call call
	}{
		{"arguments of 100 B", take(100)}, {"arguments of 16 KiB", take(16 << 10)}, {"arguments of 900 KiB", take(900 << 10)},
		{"results of 100 B", give(100)}, {"results of 16 KiB", give(16 << 10)}, {"results of 1 MiB", give(1 << 20)},
	}
	var targets []*load.Target
	var answers [][]byte
	for _, c := range calls {
		t := c.call.modern(fleet)
		if err := await(ctx, t); err != nil {
			return err
		}
		answer, err := load.Once(t)
		if err != nil {
			return err
		}
		targets, answers = append(targets, t), append(answers, answer)
	}
	floor, err := b.floorApart(answers...)
	if err != nil {
		return err
	}
	var contenders []*contender
	for i, c := range calls {
		own, err := b.enter(ctx, c.name, fleet, targets[i])
		if err != nil {
			return err
		}
		other, err := b.enter(ctx, "floor, "+c.name, floor, beside(floor, targets[i], i))
		if err != nil {
			return err
		}
		contenders = append(contenders, own, other)
	}
	if err := b.contest(ctx, "sizes", contenders...); err != nil {
		return err
	}
	for i, c := range calls {
		b.add(row{Group: "sizes", What: "calls with " + c.name + ", processes, of the floor", Of: rates(contenders[2*i], contenders[2*i+1])})
	}
	return nil
}

// progress is calls with four reports of progress, as processes: JetStream keeps what a
// client of 2025-11-25 can come back for, and one of 2026-07-28 gets plain replies.
func (b *bench) progress(ctx context.Context) error {
	fleet, err := b.fleet(1, benchPart("bench"))
	if err != nil {
		return err
	}
	report := call{tool: "bench_report", arguments: "{}", want: "notifications/progress", progress: true}
	plain, err := b.enter(ctx, "plain replies", fleet, times(4, report.modern(fleet))...)
	if err != nil {
		return err
	}
	sessions, err := report.legacy(fleet, b.connections)
	if err != nil {
		return err
	}
	kept, err := b.enter(ctx, "kept by JetStream", fleet, times(4, sessions...)...)
	if err != nil {
		return err
	}
	if err := b.contest(ctx, "progress", plain, kept); err != nil {
		return err
	}
	b.add(row{Group: "progress", What: "SSE with four progress frames through JetStream, of the same by plain replies", Of: rates(kept, plain), Want: 0.6})
	return nil
}

// times wants of targets that what they want is n times in the answer.
func times(n int, targets ...*load.Target) []*load.Target {
	for _, t := range targets {
		t.Times = n
	}
	return targets
}
