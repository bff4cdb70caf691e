package main

import (
	"context"
	"fmt"

	"github.com/busbar-mcp/busbar/test/bench/process"
)

// memory measures the memory of processes at rest, and how much each session and each service adds.
func (b *bench) memory(ctx context.Context) error {
	if err := b.atRests(ctx); err != nil {
		return err
	}
	for _, name := range []string{"busbar", "edge"} {
		if err := b.profile(ctx, name); err != nil {
			return err
		}
	}
	defer b.ship()
	if err := b.sessions(ctx); err != nil {
		return err
	}
	return b.services(ctx)
}

// atRests is each process by itself, as it is shipped.
func (b *bench) atRests(ctx context.Context) error {
	dev, err := b.dev()
	if err != nil {
		return err
	}
	fleet, err := b.fleet(1, part{name: "text", service: "text"})
	if err != nil {
		return err
	}
	for _, s := range []*system{dev, fleet} {
		if err := await(ctx, small.modern(s)); err != nil {
			return err
		}
	}
	for _, p := range append(dev.processes, fleet.processes...) {
		bytes, err := b.atRest(ctx, p)
		if err != nil {
			return err
		}
		name := p.Name
		if p == dev.processes[0] {
			name = "busbar dev"
		}
		b.add(row{Group: "memory", What: "at rest: " + name, Unit: "MiB", Of: []float64{float64(bytes) / (1 << 20)}})
	}
	return b.end()
}

// lives is the memory of a profiled process without its garbage.
func lives(ctx context.Context, p *process.Process, socket string) (float64, error) {
	for range 2 { // what a finalizer let go of goes with the second collection
		if _, err := ask(ctx, socket, "rest"); err != nil {
			return 0, err
		}
	}
	bytes, err := p.Memory()
	return float64(bytes) / 1024, err
}

// sessions measures the memory of a legacy session without a stream: all of "busbar dev", including
// the bucket of sessions in its NATS server.
func (b *bench) sessions(ctx context.Context) error {
	n := 10_000
	if b.smoke {
		n = 100
	}
	socket, err := b.door(0)
	if err != nil {
		return err
	}
	s, err := b.dev()
	if err != nil {
		return err
	}
	p := s.processes[0]
	open := func(n int) error {
		for range n {
			if _, err := openSession(s); err != nil {
				return err
			}
		}
		return nil
	}
	if err := open(n / 10); err != nil { // buffers and pools are there
		return err
	}
	before, err := lives(ctx, p, socket)
	if err != nil {
		return err
	}
	if err := open(n); err != nil {
		return err
	}
	after, err := lives(ctx, p, socket)
	if err != nil {
		return err
	}
	b.add(row{Group: "memory", What: fmt.Sprintf("a legacy session without a stream, of %d, busbar dev", n), Unit: "KiB", Of: []float64{(after - before) / float64(n)}})
	return b.end()
}

// services measures the cost of a service in the catalogue to an edge.
func (b *bench) services(ctx context.Context) error {
	few, many := 10, 1000
	if b.smoke {
		many = 50
	}
	var kib []float64
	for _, n := range []int{few, many} {
		socket, err := b.door(0)
		if err != nil {
			return err
		}
		s, err := b.crowd(n)
		if err != nil {
			return err
		}
		if _, _, err := b.allPages(ctx, s, 10*n); err != nil {
			return err
		}
		with, err := lives(ctx, s.process("edge"), socket)
		if err != nil {
			return err
		}
		kib = append(kib, with)
		if err := b.end(); err != nil {
			return err
		}
	}
	b.add(row{Group: "memory", What: fmt.Sprintf("a service with ten tools in the catalogue, of %d, edge", many), Unit: "KiB", Of: []float64{(kib[1] - kib[0]) / float64(many-few)}})
	return nil
}
