package registry

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// MaxInstances is how many instances of one service an edge knows at once. Those that it
// knows keep their places for as long as they announce themselves, whoever else does.
const MaxInstances = 1000

// MaxServices is how many services an edge knows at once. Those that it knows keep their
// places as instances do.
const MaxServices = 1000

// MaxAnnouncement is how large an announcement may be, in bytes. The bucket keeps no larger
// one, and an edge that hears one ignores it.
const MaxAnnouncement = 4 << 10

// floodOver is how long a service has to announce no more than MaxInstances until a flood
// of its instances counts as over.
const floodOver = time.Minute

// roster has the last word of each instance, by service. Entering one costs the same
// however many there are.
type roster struct {
	mu       sync.Mutex
	services map[string]map[string]*entry
	// refused are services some of whose instances found no place; all those without a
	// place are one, under no name.
	refused map[string]*refusals
}

// said is one announcement.
type said struct {
	ann *busv1.Announcement
	at  time.Time
	// listed says that it was read from the bucket, which may be behind.
	listed bool
	// ahead is how far this clock was ahead of the instance's, if timed is set.
	ahead time.Duration
	timed bool
}

// entry is one instance.
type entry struct {
	ann *busv1.Announcement
	at  time.Time
	// ahead are how far this clock was ahead of the instance's, and how long the way here
	// took, in one: those of its last beats.
	ahead []time.Duration
}

// refusals are the announcements of a service that found no place; latest is the service.
type refusals struct {
	count  uint64
	last   time.Time
	latest string
	told   bool
}

// Flood is how many announcements an edge has ignored: of a service that had MaxInstances
// already or, if Service is empty, of the services beyond MaxServices, of which Latest is
// one.
type Flood struct {
	Service string
	Refused uint64
	Latest  string
}

func (f *refusals) flood(service string) Flood { return Flood{service, f.count, f.latest} }

func newRoster() *roster {
	return &roster{services: map[string]map[string]*entry{}, refused: map[string]*refusals{}}
}

// admits reports whether an instance has a place, or there is one left for it.
func (r *roster) admits(service, instance string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hasPlace(service, instance) {
		return true
	}
	at := service
	if r.services[service] == nil || r.refused[service] == nil && len(r.refused) > MaxServices {
		at = ""
	}
	f := r.refused[at]
	if f == nil {
		f = &refusals{}
		r.refused[at] = f
	}
	f.count, f.last, f.latest = f.count+1, time.Now(), service
	return false
}

// hasPlace reports whether there is a place for an instance, or it has one.
func (r *roster) hasPlace(service, instance string) bool {
	all := r.services[service]
	if all == nil {
		return len(r.services) < MaxServices
	}
	return len(all) < MaxInstances || all[instance] != nil
}

// enter notes what an instance says, unless it has said something newer or has no place.
// known reports whether it was there, changed whether it says anything else than before.
func (r *roster) enter(s said) (known, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.services[s.ann.Service]
	one := all[s.ann.Instance]
	switch {
	case !r.hasPlace(s.ann.Service, s.ann.Instance):
		return false, false
	case one == nil:
		if all == nil {
			all = map[string]*entry{}
			r.services[s.ann.Service] = all
		}
		one, changed = &entry{}, true
		all[s.ann.Instance] = one
	case s.listed && s.ann.SentUnixNano <= one.ann.SentUnixNano:
		return true, false
	default:
		known, changed = true, !sameSaid(one.ann, s.ann)
	}
	one.ann, one.at = s.ann, s.at
	if s.timed {
		if len(one.ahead) == beatsCompared {
			one.ahead = one.ahead[1:]
		}
		one.ahead = append(one.ahead, s.ahead)
	}
	return known, changed
}

// sameSaid compares announcements, but for when they were made.
func sameSaid(a, b *busv1.Announcement) bool {
	if (a.SentUnixNano == 0) != (b.SentUnixNano == 0) {
		return false
	}
	b = proto.CloneOf(b)
	b.SentUnixNano = a.SentUnixNano
	return proto.Equal(a, b)
}

// leave removes an instance, and reports whether it was there.
func (r *roster) leave(service, instance string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.services[service][instance] == nil {
		return false
	}
	r.remove(service, instance)
	return true
}

func (r *roster) remove(service, instance string) {
	if delete(r.services[service], instance); len(r.services[service]) == 0 {
		delete(r.services, service)
	}
}

// expire removes the instances that have said nothing since a time, and reports whether
// there were any.
func (r *roster) expire(since time.Time) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, all := range r.services {
		for instance, one := range all {
			if one.at.Before(since) {
				r.remove(service, instance)
				changed = true
			}
		}
	}
	return changed
}

// touch makes the silence of every instance begin at a time.
func (r *roster) touch(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.services {
		for _, one := range all {
			one.at = now
		}
	}
}

// announcements are the last ones of all instances, by service. They are not to be changed.
func (r *roster) announcements() map[string][]*busv1.Announcement {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string][]*busv1.Announcement, len(r.services))
	for service, all := range r.services {
		anns := make([]*busv1.Announcement, 0, len(all))
		for _, one := range all {
			anns = append(anns, one.ann)
		}
		now[service] = anns
	}
	return now
}

// ahead is how far this clock is ahead of each service's: of the median of its instances,
// by the fastest of their last beats.
func (r *roster) ahead() (services []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.services {
		var instances []time.Duration
		for _, one := range all {
			if len(one.ahead) > 0 {
				instances = append(instances, slices.Min(one.ahead))
			}
		}
		if len(instances) > 0 {
			services = append(services, median(instances))
		}
	}
	return services
}

// floods are the services some of whose announcements were refused, by name.
func (r *roster) floods() (all []Flood) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, f := range r.refused {
		all = append(all, f.flood(service))
	}
	slices.SortFunc(all, func(a, b Flood) int { return cmp.Compare(a.Service, b.Service) })
	return all
}

// tell returns the floods that have begun, and those that are over, since it was asked
// last.
func (r *roster) tell(now time.Time) (began, ended []Flood) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, f := range r.refused {
		switch flooding := now.Sub(f.last) < floodOver; {
		case flooding && !f.told:
			began = append(began, f.flood(service))
			f.told = true
		case !flooding && f.told:
			ended = append(ended, f.flood(service))
			f.told = false
		}
	}
	return began, ended
}
