package fetch

import (
	"sync"
	"time"
)

// circuit is a circuit breaker: it stops requests to a host that keeps failing. It opens after
// Limits.Failures in a row. After Limits.Open one request probes, and its success closes
// it.
type circuit struct {
	limits Limits

	mu       sync.Mutex
	failures int
	until    time.Time // open until then, and longer during a probe; zero means closed
	probing  bool
}

type outcome int

const (
	succeeded outcome = iota
	failed
	// unclear: the caller gave up, which shows nothing about the host.
	unclear
)

// enter asks for permission to send a request. Report its outcome to leave.
func (c *circuit) enter(now time.Time) (leave func(outcome, time.Time), shut *Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.until.IsZero():
		return c.leave, nil
	case now.Before(c.until):
		return nil, &Failure{Kind: Shut, Until: c.until}
	case c.probing:
		return nil, &Failure{Kind: Shut, Until: now.Add(time.Second)}
	}
	c.probing = true
	return c.probed, nil
}

func (c *circuit) leave(o outcome, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Once it is open, only the probe counts, not earlier requests.
	if !c.until.IsZero() || o == unclear {
		return
	}
	c.failures++
	if o == succeeded {
		c.failures = 0
	}
	if c.failures >= c.limits.Failures {
		c.until = now.Add(c.limits.Open)
	}
}

func (c *circuit) probed(o outcome, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
	switch o {
	case succeeded:
		c.failures, c.until = 0, time.Time{}
	case failed:
		c.until = now.Add(c.limits.Open)
	}
}
