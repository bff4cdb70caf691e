package registry

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// MaxClockOffset is how far the clock of a process may be from most of the bus
// before that is said. Calls do not mind (ADR 0016); what is sealed, kept and
// recorded has times of the wall.
const MaxClockOffset = 5 * time.Second

// beatsCompared are the last beats of an instance of which the fastest counts.
const beatsCompared = 4

// clock is how far the clock of this process is from those of services.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
	known  bool
}

// compare notes how far this clock is ahead of each service's, and logs when that begins
// or ends to matter. Unless what is heard is prompt, it shows how late that is instead,
// and what is known stays.
func (c *clock) compare(log *slog.Logger, services []time.Duration, prompt bool) {
	if !prompt {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.offset.Abs() > MaxClockOffset
	c.offset, c.known = 0, len(services) > 0
	if c.known {
		c.offset = median(services)
	}
	switch bad := c.offset.Abs() > MaxClockOffset; {
	case bad && !was:
		log.Warn("the clock of this machine is off against most of the bus; set it", "offset", c.offset)
	case was && !bad:
		log.Info("the clock of this machine is that of most of the bus again")
	}
}

// ClockOffset is how far the clock of this process is ahead of most services on
// the bus; less than nothing is behind. Each service counts once, however many
// instances it announces. It is known once the registry has heard one.
func (r *Registry) ClockOffset() (offset time.Duration, known bool) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.offset, r.clock.known
}

// median is the middle one; of an even number, the one of the two that is closer to zero.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	upper, lower := all[len(all)/2], all[(len(all)-1)/2]
	if lower.Abs() < upper.Abs() {
		return lower
	}
	return upper
}
