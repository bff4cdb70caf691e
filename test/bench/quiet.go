package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// quietTime is how long what a system does after its last answer is waited for: it tells
	// one that never ends from a slow disk.
	quietTime = 5 * time.Minute
	// look is how often is looked whether a system still works.
	look = 200 * time.Millisecond
)

// rests measures what each process of a system uses at rest, for heartbeats and the like, as a
// share of a processor. A process that has just started does more, so the least of several
// measurements counts.
func (s *system) rests(ctx context.Context) error {
	if s.rest != nil {
		return nil
	}
	rest := make([]float64, len(s.processes))
	for n := range 5 {
		used, err := s.uses(ctx, 2*look)
		if err != nil {
			return err
		}
		for i, d := range used {
			if share := float64(d) / float64(2*look); n == 0 || share < rest[i] {
				rest[i] = share
			}
		}
	}
	s.rest = rest
	return nil
}

// quiet waits until a system uses hardly more than at rest, and returns what its processes
// have used so far.
func (s *system) quiet(ctx context.Context) ([]time.Duration, error) {
	rest := 0.0
	for _, share := range s.rest {
		rest += share
	}
	for begin := time.Now(); time.Since(begin) < quietTime; {
		used, err := s.uses(ctx, look)
		if err != nil {
			return nil, err
		}
		busy := time.Duration(0)
		for _, d := range used {
			busy += d
		}
		if float64(busy)/float64(look) <= 1.5*rest+0.1 {
			return s.used()
		}
	}
	return nil, fmt.Errorf("it still works %v after its last answer", quietTime)
}

// uses measures the processor time of a system's processes during length.
func (s *system) uses(ctx context.Context, length time.Duration) ([]time.Duration, error) {
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := s.used()
	for i := range after {
		if i < len(before) {
			after[i] -= before[i]
		}
	}
	return after, err
}

func (s *system) used() ([]time.Duration, error) {
	all := make([]time.Duration, len(s.processes))
	var failed error
	for i, p := range s.processes {
		var err error
		all[i], err = p.Used()
		failed = errors.Join(failed, err)
	}
	return all, failed
}
