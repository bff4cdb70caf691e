package bus

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
)

// members are the instances of services that a Registry knows, and how many calls of this process
// each carries. Calls go to the instance with the fewest: a queue group spreads them randomly,
// which leaves slots idle at one instance while calls wait at another.
type members struct {
	mu       sync.Mutex
	services map[string]group
}

// group are the instances of one service: in the order in which calls look at them, and by
// name.
type group struct {
	all   []*member
	named map[string]*member
}

type member struct {
	instance string
	version  string
	calls    int
	// gone is set if the instance has no subscriber; its next announcement resets it.
	gone bool
	// silent is set if it sent no heartbeat to a call. Until it sends one to another call, or
	// announces itself, it is called only if there is no other instance. heard is when it last sent
	// one, zero if it has been silent since.
	silent bool
	heard  time.Time
	// asks is set if it begins calls with an effect only with a permit.
	asks bool
	// region is where it is; empty for instances of earlier releases, which do not announce it.
	region string
}

// distance is how many more calls than a distant instance one of the caller's region carries before
// the distant one is called: half of the default slots, so that two edges fill it before either
// looks further.
const distance = 32

// origin is the region a call comes from. full is set if the call found no free slot there.
type origin struct {
	region string
	full   bool
}

func (m *member) elsewhere(from origin) bool {
	return m.region != from.region && m.region != "" && from.region != ""
}

// load is the number of an instance's calls, plus distance if it is outside of the caller's region.
// If the caller found that region full, distance is added to the instances in it instead.
func (m *member) load(from origin) int {
	if m.elsewhere(from) != from.full {
		return m.calls + distance
	}
	return m.calls
}

// worse reports whether than is the better choice. An instance that is not silent is better; of two
// silent ones, the one heard of last; otherwise the one with less load.
func (m *member) worse(than *member, from origin) bool {
	switch {
	case m.silent != than.silent:
		return m.silent
	case m.silent:
		return m.heard.Before(than.heard)
	}
	return m.load(from) > than.load(from)
}

// SetInstances sets the known instances, by service, for calls on this connection. A registry calls
// it.
func (c *Conn) SetInstances(now map[string][]*busv1.Announcement) {
	m := &c.members
	m.mu.Lock()
	defer m.mu.Unlock()
	services := make(map[string]group, len(now))
	for service, instances := range now {
		g := group{make([]*member, 0, len(instances)), make(map[string]*member, len(instances))}
		for _, ann := range instances {
			one := m.services[service].named[ann.Instance]
			if one == nil {
				one = &member{instance: ann.Instance}
			}
			one.version, one.asks, one.region = ann.Version, ann.SentUnixNano != 0, ann.Region
			g.all, g.named[ann.Instance] = append(g.all, one), one
		}
		services[service] = g
	}
	m.services = services
}

// InstanceAnnounced makes calls go again to an instance that had no subscriber or was silent.
func (c *Conn) InstanceAnnounced(service, instance string) {
	m := &c.members
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.services[service].named[instance]; one != nil {
		one.gone, one.silent, one.heard = false, false, time.Now()
	}
}

// ask reports whether every instance of a service begins calls with an effect only with a permit;
// an instance that is not announced does.
func (m *members) ask(service string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.services[service].all, func(one *member) bool { return !one.asks })
}

// If there are more instances than fewMembers, a call looks at triedMembers random ones of its
// region.
const fewMembers, triedMembers = 16, 4

// take returns the instance for a call, except those already tried, or nil to leave the choice to
// the queue group. Give it back with done.
func (m *members) take(service string, from origin, tried []string) *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.services[service].all
	// The only known instance is also addressed by name: the queue group might choose a hanging
	// instance that was forgotten.
	n := len(all)
	looked := n
	if n > fewMembers {
		looked = triedMembers
	}
	var best *member
	for i, at := 0, rand.IntN(max(n, 1)); i < n && looked > 0; i, at = i+1, (at+1)%n {
		one := all[at]
		if !one.elsewhere(from) {
			looked--
		}
		if one.gone || slices.Contains(tried, one.instance) {
			continue
		}
		// A silent instance is chosen too: the queue group might choose one that hangs.
		if best == nil || best.worse(one, from) {
			best = one
		}
	}
	if best != nil {
		best.calls++
	}
	return best
}

// version returns the version of an instance; empty if it is not known.
func (m *members) version(service, instance string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.services[service].named[instance]; one != nil {
		return one.version
	}
	return ""
}

// takeFrom is take for a call that only some instances understand. One that hangs
// is called if there is no other; nil means no instance.
func (m *members) takeFrom(service string, from origin, only, tried []string) *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	var best *member
	all := m.services[service].all
	for i, at := 0, rand.IntN(max(len(all), 1)); i < len(all); i, at = i+1, (at+1)%len(all) {
		one := all[at]
		if one.gone || !slices.Contains(only, one.instance) || slices.Contains(tried, one.instance) {
			continue
		}
		if best == nil || best.worse(one, from) {
			best = one
		}
	}
	if best != nil {
		best.calls++
	}
	return best
}

// known reports whether the registry knows an instance of a service.
func (m *members) known(service string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.services[service].all) > 0
}

// others are the instances that a call may go to besides some; nil for only means any.
func (m *members) others(service string, only, besides []string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.services[service].all {
		if !one.gone && !one.silent && (only == nil || slices.Contains(only, one.instance)) && !slices.Contains(besides, one.instance) {
			all = append(all, one.instance)
		}
	}
	return all
}

// done takes a call from an instance; word is what the call says about it.
func (m *members) done(one *member, word flow.Word) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.calls--
	switch word {
	case flow.Lives:
		one.silent, one.heard = false, time.Now()
	case flow.Absent:
		one.gone = true
	case flow.Quiet:
		one.silent, one.heard = true, time.Time{}
	}
}
