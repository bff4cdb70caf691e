package main

import (
	"context"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

var groups = []group{
	{"core", "small calls, beside the floor and other servers", (*bench).core},
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
	var contenders []*contender
	enter := func(name string, s *system, err error, old bool) (*contender, error) {
		if err != nil {
			return nil, err
		}
		targets := []*load.Target{small.modern(s)}
		if old {
			if targets, err = small.legacy(s, b.connections); err != nil {
				return nil, err
			}
		}
		c, err := b.enter(ctx, name, s, targets...)
		contenders = append(contenders, c)
		return c, err
	}
	one, err := enter("busbar dev", dev, nil, false)
	if err != nil {
		return err
	}
	s, err := b.peer("floor", answer)
	floor, err := enter("floor", s, err, false)
	if err != nil {
		return err
	}
	s, err = b.floorApart(answer)
	floorApart, err := enter("floor, processes", s, err, false)
	if err != nil {
		return err
	}
	s, err = b.fleet(1, part{name: "text", service: "text"})
	apart, err := enter("busbar, processes", s, err, false)
	if err != nil {
		return err
	}
	s, err = b.bare()
	bare, err := enter("chain off", s, err, false)
	if err != nil {
		return err
	}
	guarded, err := b.guarded()
	full, err := enter("full chain", guarded, err, false)
	if err != nil {
		return err
	}
	fullOld, err := enter("full chain, legacy", guarded, nil, true)
	if err != nil {
		return err
	}
	s, err = b.peer("sdk", nil)
	sdk, err := enter("official SDK", s, err, false)
	if err != nil {
		return err
	}
	s, err = b.peer("sdk-sessions", nil)
	sdkOld, err := enter("official SDK, legacy", s, err, true)
	if err != nil {
		return err
	}
	s, err = b.peer("mcp-go", nil)
	mcpGo, err := enter("mcp-go", s, err, false)
	if err != nil {
		return err
	}
	if err := b.contest(ctx, "core", contenders...); err != nil {
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
	return nil
}
