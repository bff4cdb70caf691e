package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// scale is the small call through several edges, and to several instances of a service.
func (b *bench) scale(ctx context.Context) error {
	const slots = 8 // of an instance, with as many callers for each
	var parts []part
	counts := []int{1, 2, 4, 8}
	for _, n := range counts {
		parts = append(parts, slices.Repeat([]part{benchPart(fmt.Sprintf("bench%d", n), fmt.Sprintf("BUSBAR_BENCH_SLOTS=%d", slots))}, n)...)
	}
	fleet, err := b.fleet(4, append(parts, part{name: "text", service: "text"})...)
	if err != nil {
		return err
	}
	var edges, instances []*contender
	for _, n := range counts[:3] {
		var targets []*load.Target
		for _, address := range fleet.edges[:n] {
			at := *fleet
			at.address = address
			t := small.modern(&at)
			if err := await(ctx, t); err != nil {
				return err
			}
			targets = append(targets, t)
		}
		c, err := b.enter(ctx, plural(n, "edge"), fleet, targets...)
		if err != nil {
			return err
		}
		edges = append(edges, c)
	}
	for _, n := range counts {
		t := call{tool: fmt.Sprintf("bench%d_slow", n), arguments: "{}", want: `{"bytes":0}`}.modern(fleet)
		if err := await(ctx, t); err != nil {
			return err
		}
		c, err := b.enterAs(ctx, plural(n, "instance"), fleet, n*slots, func(int) (load.Caller, error) { return load.Connect(t) })
		if err != nil {
			return err
		}
		instances = append(instances, c)
	}
	if err := b.contest(ctx, "scale", append(edges, instances...)...); err != nil {
		return err
	}
	for _, c := range edges[1:] {
		b.add(row{Group: "scale", What: "small calls through " + c.name + ", of those through one", Of: rates(c, edges[0])})
	}
	for _, c := range instances[1:] {
		b.add(row{Group: "scale", What: "calls of 20 ms to " + c.name + " with 8 callers each, of those to one", Of: rates(c, instances[0])})
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
