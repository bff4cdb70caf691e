package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// lineup is contenders of the small call. After the first error it starts no more.
type lineup struct {
	*bench
	all []*contender
	err error
}

// enter has a system take part, with calls of a version of MCP.
func (l *lineup) enter(ctx context.Context, name, version string, start func() (*system, error)) *contender {
	if l.err != nil {
		return nil
	}
	s, err := start()
	if err != nil {
		l.err = fmt.Errorf("%s: %w", name, err)
		return nil
	}
	targets := []*load.Target{small.modern(s)}
	if version == legacy {
		if targets, l.err = small.legacy(s, l.connections); l.err != nil {
			return nil
		}
	}
	c, err := l.bench.enter(ctx, name, s, targets...)
	l.all, l.err = append(l.all, c), err
	return c
}

// core is the small call: Busbar as one process and as several, with and without a chain,
// beside the floor, the official SDK and mcp-go.
func (b *bench) core(ctx context.Context) error {
	dev, err := b.dev()
	if err != nil {
		return err
	}
	answer, err := load.Once(small.modern(dev))
	if err != nil {
		return err
	}
	guarded, err := b.guarded()
	if err != nil {
		return err
	}
	l := &lineup{bench: b}
	there := func(s *system) func() (*system, error) { return func() (*system, error) { return s, nil } }
	peer := func(name string) func() (*system, error) {
		return func() (*system, error) { return b.peer(name, answer) }
	}
	one := l.enter(ctx, "busbar dev", modern, there(dev))
	floor := l.enter(ctx, "floor", modern, peer("floor"))
	floorApart := l.enter(ctx, "floor, processes", modern, func() (*system, error) { return b.floorApart(answer) })
	apart := l.enter(ctx, "busbar, processes", modern, func() (*system, error) { return b.fleet(1, part{name: "text", service: "text"}) })
	bare := l.enter(ctx, "chain off", modern, b.bare)
	full := l.enter(ctx, "full chain", modern, there(guarded))
	fullOld := l.enter(ctx, "full chain, legacy", legacy, there(guarded))
	sdk := l.enter(ctx, "official SDK", modern, peer("sdk"))
	sdkOld := l.enter(ctx, "official SDK, legacy", legacy, peer("sdk-sessions"))
	mcpGo := l.enter(ctx, "mcp-go", modern, peer("mcp-go"))
	if l.err != nil {
		return l.err
	}
	if err := b.contest(ctx, "core", l.all...); err != nil {
		return err
	}
	add := func(what string, of []float64, want float64, atMost bool) {
		b.add(row{Group: "core", What: what, Of: of, Want: want, AtMost: atMost})
	}
	add("small call, dev with audit stored on SQLite, of the floor", rates(one, floor), 0.7, false)
	add("small call, processes, CPU at the edge, of the floor's edge", ratios(apart.at("edge"), floorApart.at("edge")), 1.5, true)
	add("CPU of a call, whole dev, of the floor's", ratios(one.whole(), floor.whole()), 1.6, true)
	add("small call, chain off, of the floor", rates(bare, floor), 0.9, false)
	add("full chain, of the official SDK in process", rates(full, sdk), 6, false)
	add("full chain, legacy, of the official SDK in process", rates(fullOld, sdkOld), 5, false)
	add("full chain, of mcp-go in process", rates(full, mcpGo), 1.5, false)
	if err := b.halves(ctx, one, bare, floor); err != nil {
		return err
	}
	for _, c := range []*contender{one, apart, full} {
		if err := b.recorded(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// recorded fails unless each call of a system is in its audit trail and the signatures are valid.
func (b *bench) recorded(ctx context.Context, c *contender) error {
	// A process that waits for the disk uses no processor, so a quiet system may still write.
	var err error
	for deadline := time.Now().Add(quietTime); ; {
		if err = b.recordedNow(ctx, c); err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(look)
	}
}

func (b *bench) recordedNow(ctx context.Context, c *contender) error {
	s := c.system
	verify := exec.CommandContext(ctx, b.programs.path("busbar"), "audit", "verify", "--json", "--timeout", "5m", "--url", "http://"+s.address, "--data-dir", s.trail)
	verify.Env = process.Environment()
	out, err := verify.Output()
	var found struct {
		OK     bool
		Chains []struct{ First, Last int }
	}
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	rows := 0
	for _, chain := range found.Chains {
		rows += chain.Last - chain.First + 1
	}
	if err != nil || !found.OK || rows < s.calls {
		return fmt.Errorf("%s: %d of %d calls are in the audit trail: %w\n%s", c.name, rows, s.calls, err, out)
	}
	b.say("core: %s: all %d calls are in the audit trail", c.name, s.calls)
	return nil
}

// halves is latency at half of each one's own peak, and of dev and the floor at half of dev's.
func (b *bench) halves(ctx context.Context, dev, bare, floor *contender) error {
	p99 := func(rate func(*contender) float64, all ...*contender) (map[*contender][]float64, error) {
		found, err := b.pace(ctx, "core", rate, all...)
		each := map[*contender][]float64{}
		for c, rounds := range found {
			for _, r := range rounds {
				each[c] = append(each[c], ms(r.Quantile(0.99)))
			}
		}
		return each, err
	}
	own, err := p99(func(c *contender) float64 { return median(c.cost.Rate) / 2 }, dev, bare, floor)
	if err != nil {
		return err
	}
	b.add(row{Group: "core", What: "p99 at half of the own peak, of the floor's", Of: ratios(own[dev], own[floor]), Want: 1.5, AtMost: true})
	b.add(row{Group: "core", What: "the same with the chain off", Of: ratios(own[bare], own[floor])})
	same, err := p99(func(*contender) float64 { return median(dev.cost.Rate) / 2 }, dev, floor)
	if err != nil {
		return err
	}
	b.add(row{Group: "core", What: "p99 at half of dev's peak, of the floor's at the same rate", Of: ratios(same[dev], same[floor])})
	return nil
}
