package registry

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// MaxClockOffset is how far the clock of a process may differ from most of the bus before it logs a
// warning. Calls are not affected (ADR 0016), but sealed, kept and recorded data has wall-clock times.
//
//limit:process difference of a process's clock from most clocks on the bus | its log has a warning
const MaxClockOffset = 5 * time.Second

// beatsCompared is how many of an instance's last heartbeats are compared; the fastest counts.
const beatsCompared = 4

// clock is the offset of this process's clock from the services' clocks.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
	known  bool
}

// compare records how far this clock is ahead of each service's, and logs when that becomes, or is no
// longer, a problem. If messages arrive late, their times show only the delay, so the known offset stays.
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
		log.Warn("the clock of this machine differs from most of the bus; set it", "offset", c.offset)
	case was && !bad:
		log.Info("the clock of this machine agrees with most of the bus again")
	}
}

// ClockOffset returns how far the clock of this process is ahead of most services on the bus; negative
// means behind. Each service counts once, however many instances it has. It is known after the registry
// has heard one.
func (r *Registry) ClockOffset() (offset time.Duration, known bool) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.offset, r.clock.known
}

// median returns the middle value; of two middle values, the one closer to zero.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	upper, lower := all[len(all)/2], all[(len(all)-1)/2]
	if lower.Abs() < upper.Abs() {
		return lower
	}
	return upper
}
