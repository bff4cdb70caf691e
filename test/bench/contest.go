package main

import (
	"context"
	"fmt"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// contender is one system under one kind of call.
type contender struct {
	name    string
	system  *system
	clients load.Clients
	connect func(n int) (load.Caller, error)
	callers int
	idle    time.Time // since when
	cost    cost
}

// idleTime is how long connections may be idle: servers end those that are for long, in
// two minutes where they are ours.
const idleTime = 20 * time.Second

// fresh makes new connections where those that there are were idle for long.
func (c *contender) fresh() error {
	if time.Since(c.idle) < idleTime {
		return nil
	}
	c.clients.Close()
	c.clients = nil
	for n := range c.callers {
		one, err := c.connect(n)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.clients = append(c.clients, one)
	}
	return nil
}

// sample is the result of one turn.
type sample struct {
	load.Result
	cpu    []time.Duration // of each process, until it was quiet
	caller time.Duration   // of this process
	stored time.Duration   // until it was quiet
}

// enter opens the connections of a contender, and warms it up. There is one target for each
// connection, or one for all.
func (b *bench) enter(ctx context.Context, name string, s *system, targets ...*load.Target) (*contender, error) {
	if err := await(ctx, targets[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.enterAs(ctx, name, s, b.connections, func(n int) (load.Caller, error) { return load.Connect(targets[n%len(targets)]) })
}

// enterAs is enter with callers of any kind.
func (b *bench) enterAs(ctx context.Context, name string, s *system, callers int, connect func(n int) (load.Caller, error)) (*contender, error) {
	c := &contender{name: name, system: s, connect: connect, callers: callers, cost: cost{Name: name}}
	b.later(func() error { c.clients.Close(); return nil })
	for _, p := range s.processes {
		c.cost.Process = append(c.cost.Process, p.Name)
	}
	c.cost.CPU = make([][]float64, len(s.processes))
	err := s.rests(ctx)
	if err != nil {
		return nil, err
	}
	_, err = c.measure(ctx, func() (load.Result, error) { return c.clients.Closed(ctx, min(b.turn, 500*time.Millisecond)) })
	return c, err
}

// await makes a call until it is answered as it should be: an edge learns of services a
// moment after they are ready.
func await(ctx context.Context, t *load.Target) error {
	for deadline := time.Now().Add(quietTime); ; {
		_, err := load.Once(t)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// measure puts a contender under a load, and then waits until it is quiet: later work, such as
// writing the audit trail, belongs to its calls and not to the next turn. Work that it also does at
// rest is not counted.
func (c *contender) measure(ctx context.Context, run func() (load.Result, error)) (s sample, err error) {
	if err := c.fresh(); err != nil {
		return s, err
	}
	before, err := c.system.used()
	if err != nil {
		return s, err
	}
	own := process.Self()
	begun := time.Now()
	if s.Result, err = run(); err != nil {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}
	s.caller = process.Self() - own
	c.system.calls += s.Calls
	answered := time.Now()
	c.idle = answered
	after, err := c.system.quiet(ctx)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}
	s.stored = max(time.Since(answered)-look, 0)
	for i := range after {
		rest := time.Duration(c.system.rest[i] * float64(time.Since(begun)))
		s.cpu = append(s.cpu, max(after[i]-before[i]-rest, 0))
	}
	return s, nil
}

// contest measures contenders in turns, so that a machine that is noisy is noisy for all.
// Their costs are kept under the group's name.
func (b *bench) contest(ctx context.Context, group string, contenders ...*contender) error {
	for _, c := range contenders {
		for _, p := range c.system.processes {
			bytes, err := p.Memory()
			if err != nil {
				return err
			}
			c.cost.Memory = append(c.cost.Memory, float64(bytes)/(1<<20))
		}
	}
	for round := range b.rounds {
		// Each begins once in a while, so that none always follows the same other.
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			s, err := c.measure(ctx, func() (load.Result, error) { return c.clients.Closed(ctx, b.turn) })
			if err != nil {
				return err
			}
			c.take(s)
		}
		text := ""
		for _, c := range contenders {
			text += fmt.Sprintf(" · %s %.0f/s", c.name, c.cost.Rate[round])
		}
		b.say("%s: round %d of %d%s", group, round+1, b.rounds, text)
	}
	for _, c := range contenders {
		c.cost.Group = group
		b.costs = append(b.costs, c.cost)
	}
	return nil
}

func (c *contender) take(s sample) {
	k := &c.cost
	k.Rate = append(k.Rate, s.Rate())
	k.P50, k.P99 = append(k.P50, ms(s.Quantile(0.5))), append(k.P99, ms(s.Quantile(0.99)))
	k.Stored = append(k.Stored, s.stored.Seconds())
	k.Caller = append(k.Caller, us(s.caller, s.Calls))
	for i, used := range s.cpu {
		k.CPU[i] = append(k.CPU[i], us(used, s.Calls))
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func us(d time.Duration, calls int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(calls)
}

// pace measures contenders in turns at rates that do not depend on them, and returns the time that
// each took in each round.
func (b *bench) pace(ctx context.Context, group string, rate func(*contender) float64, contenders ...*contender) (map[*contender][]load.Result, error) {
	found := map[*contender][]load.Result{}
	for round := range b.rounds {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			s, err := c.measure(ctx, func() (load.Result, error) { return c.clients.Open(ctx, rate(c), b.turn) })
			if err != nil {
				return nil, err
			}
			found[c] = append(found[c], s.Result)
		}
	}
	for _, c := range contenders {
		q := curve{Group: group, Name: c.name, Rate: rate(c)}
		for _, at := range quantiles {
			var all []float64
			for _, r := range found[c] {
				all = append(all, ms(r.Quantile(at)))
			}
			q.Quantiles = append(q.Quantiles, median(all))
		}
		b.curves = append(b.curves, q)
	}
	return found, nil
}

// quantiles are the points of a curve.
var quantiles = []float64{0, 0.5, 0.9, 0.99, 0.999}

// rates are the calls a second of one as a multiple of another's, round by round.
func rates(of, beside *contender) []float64 { return ratios(of.cost.Rate, beside.cost.Rate) }

// whole is the processor time of a call in all processes, round by round.
func (c *contender) whole() []float64 {
	all := make([]float64, len(c.cost.Rate))
	for _, one := range c.cost.CPU {
		for i, us := range one {
			all[i] += us
		}
	}
	return all
}

// at is the processor time of a call in one process.
func (c *contender) at(process string) []float64 {
	for i, name := range c.cost.Process {
		if name == process {
			return c.cost.CPU[i]
		}
	}
	panic(c.name + " has no process " + process)
}

func ratios(of, beside []float64) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = of[i] / beside[i]
	}
	return all
}
