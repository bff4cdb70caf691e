package registry

import (
	"slices"
	"sync"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
)

// MaxClockOffset is how far the clock of a process may be from most of the bus
// before that is said. Calls do not mind (ADR 0016); what is sealed, kept and
// recorded has times of the wall.
const MaxClockOffset = 5 * time.Second

// beatsCompared are the last beats of an instance of which the fastest counts.
const beatsCompared = 4

// clocks compare the clock of this process with those of the instances that it
// hears.
type clocks struct {
	mu        sync.Mutex
	instances map[string]*beats
	// told says that the clock is known to be off.
	told bool
}

// beats are how far this clock was ahead of an instance's, and how long the way
// here took, in one.
type beats struct {
	last  time.Time
	ahead []time.Duration
}

// heard notes an announcement that has just arrived, nil for a withdrawal.
func (k *clocks) heard(conn *bus.Conn, key string, ann *busv1.Announcement) {
	k.mu.Lock()
	if k.instances == nil {
		k.instances = map[string]*beats{}
	}
	if ann == nil {
		delete(k.instances, key)
	} else if ann.SentUnixNano != 0 {
		b := k.instances[key]
		if b == nil {
			b = &beats{}
			k.instances[key] = b
		}
		if len(b.ahead) == beatsCompared {
			b.ahead = b.ahead[1:]
		}
		b.last, b.ahead = time.Now(), append(b.ahead, conn.Now().Sub(time.Unix(0, int64(ann.SentUnixNano))))
	}
	k.mu.Unlock()
	off, known := k.offset()
	k.mu.Lock()
	defer k.mu.Unlock()
	if bad := known && off.Abs() > MaxClockOffset; bad != k.told {
		k.told = bad
		if bad {
			conn.Log().Warn("the clock of this machine is off against most of the bus; set it", "offset", off)
		} else {
			conn.Log().Info("the clock of this machine is that of most of the bus again")
		}
	}
}

// ClockOffset is how far the clock of this process is ahead of most instances on
// the bus; less than nothing is behind. It is known once the registry has heard
// one.
func (r *Registry) ClockOffset() (offset time.Duration, known bool) { return r.clocks.offset() }

func (k *clocks) offset() (offset time.Duration, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []time.Duration
	for key, b := range k.instances {
		if time.Since(b.last) > BeatTTL {
			delete(k.instances, key)
			continue
		}
		all = append(all, slices.Min(b.ahead))
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}
