package main

import (
	"context"
	"fmt"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

const (
	// quietTime is how long what a system does after its last answer is waited for.
	quietTime = time.Minute
	// look is how often is looked whether a system still works.
	look = 200 * time.Millisecond
)

// contender is one system under one kind of call.
type contender struct {
	name    string
	system  *system
	clients *load.Clients
	cost    cost
}

// sample is what one turn found.
type sample struct {
	load.Result
	cpu    []time.Duration // of each process, until it was quiet
	caller time.Duration   // of this process
	stored time.Duration   // until it was quiet
}

// enter opens the connections of a contender, and warms it up. There is one target for each
// connection, or one for all.
func (b *bench) enter(ctx context.Context, name string, s *system, targets ...*load.Target) (*contender, error) {
	for len(targets) < b.connections {
		targets = append(targets, targets[0])
	}
	if err := await(ctx, targets[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	clients, err := load.Dial(targets...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b.later(func() error { clients.Close(); return nil })
	c := &contender{name: name, system: s, clients: clients, cost: cost{Name: name}}
	for _, p := range s.processes {
		c.cost.Process = append(c.cost.Process, p.Name)
	}
	c.cost.CPU = make([][]float64, len(s.processes))
	_, err = c.measure(ctx, func() (load.Result, error) { return clients.Closed(ctx, min(b.round, 500*time.Millisecond)) })
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

// measure puts a contender under a load, and then waits until it is quiet: what it does
// later, such as writing the audit trail, belongs to its calls and not to the next turn.
func (c *contender) measure(ctx context.Context, run func() (load.Result, error)) (s sample, err error) {
	before, err := c.system.used()
	if err != nil {
		return s, err
	}
	own := process.Self()
	if s.Result, err = run(); err != nil {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}
	s.caller = process.Self() - own
	answered := time.Now()
	last, err := c.system.used()
	for err == nil {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return s, ctx.Err()
		}
		var now []time.Duration
		if now, err = c.system.used(); err != nil {
			break
		}
		busy := time.Duration(0)
		for i := range now {
			busy += now[i] - last[i]
		}
		last = now
		// What runs at rest, such as heartbeats, is less than a twentieth of a processor.
		if busy <= look/20 {
			s.stored = max(time.Since(answered)-look, 0)
			break
		}
		if time.Since(answered) > quietTime {
			err = fmt.Errorf("%s still works %v after its last answer", c.name, quietTime)
		}
	}
	for i := range last {
		s.cpu = append(s.cpu, last[i]-before[i])
	}
	return s, err
}

// rounds measures contenders in turns, so that a machine that is noisy is noisy for all.
// Their costs are kept under the group's name.
func (b *bench) contest(ctx context.Context, group string, contenders ...*contender) error {
	for round := range b.rounds {
		// Each begins once in a while, so that none always follows the same other.
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			s, err := c.measure(ctx, func() (load.Result, error) { return c.clients.Closed(ctx, b.round) })
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
