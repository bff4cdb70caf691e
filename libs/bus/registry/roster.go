package registry

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// MaxInstances is how many instances of one service an edge keeps. A known instance keeps its slot for as
// long as it announces itself, even if others announce themselves, too.
//
//limit:service instances of one service that an edge knows | new ones are ignored and counted
const MaxInstances = 1000

// MaxServices is how many services an edge keeps. A known service keeps its slot for as long as one of its
// instances announces itself.
//
//limit:service services that an edge knows | new ones are ignored and counted
const MaxServices = 1000

// MaxAnnouncement is the largest announcement, in bytes. The bucket does not store a larger one, and an
// edge ignores it.
const MaxAnnouncement = 4 << 10

// floodOver is how long a service must stay within MaxInstances until its flood counts as over.
const floodOver = time.Minute

// roster holds the last announcement of each instance, by service. The cost of adding one does not depend
// on their number.
type roster struct {
	mu       sync.Mutex
	services map[string]map[string]*entry
	// refused lists the services with ignored instances. Ignored services are one entry without a
	// name.
	refused map[string]*refusals
}

// said is an announcement.
type said struct {
	ann *busv1.Announcement
	at  time.Time
	// listed is set if it was read from the bucket, which may be out of date.
	listed bool
	// ahead is how far this clock was ahead of the instance's, if timed is set.
	ahead time.Duration
	timed bool
}

// entry is an instance.
type entry struct {
	ann *busv1.Announcement
	at  time.Time
	// ahead holds, for its last heartbeats, how far this clock was ahead of the instance's,
	// including the time of transit.
	ahead []time.Duration
}

// refusals are the ignored announcements of a service; latest names it.
type refusals struct {
	count  uint64
	last   time.Time
	latest string
	told   bool
}

// Overflow is how many announcements an edge has ignored: of instances beyond MaxInstances or, if Service is
// empty, of services beyond MaxServices. Latest is one of those services.
type Overflow struct {
	Service string
	Refused uint64
	Latest  string
}

func (f *refusals) overflow(service string) Overflow { return Overflow{service, f.count, f.latest} }

func newRoster() *roster {
	return &roster{services: map[string]map[string]*entry{}, refused: map[string]*refusals{}}
}

// admits reports whether an instance has a slot, or one is free for it.
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

// hasPlace reports whether an instance has a slot, or one is free.
func (r *roster) hasPlace(service, instance string) bool {
	all := r.services[service]
	if all == nil {
		return len(r.services) < MaxServices
	}
	return len(all) < MaxInstances || all[instance] != nil
}

// enter records an announcement, unless the instance has a newer one or no slot. known reports whether the
// instance was known, changed whether the announcement differs from the last one.
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

// sameSaid compares announcements except for their times.
func sameSaid(a, b *busv1.Announcement) bool {
	if (a.SentUnixNano == 0) != (b.SentUnixNano == 0) {
		return false
	}
	b = proto.CloneOf(b)
	b.SentUnixNano = a.SentUnixNano
	return proto.Equal(a, b)
}

// leave removes an instance, and reports whether it was known.
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

// expire removes the instances that have been silent since a time, and reports whether there were any.
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

// touch sets the start of every instance's silence to a time.
func (r *roster) touch(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.services {
		for _, one := range all {
			one.at = now
		}
	}
}

// announcements returns the last announcements of all instances, by service. They must not be changed.
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

// ahead returns how far this clock is ahead of each service's: the median of its instances, each by the fastest
// of its last heartbeats.
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

// overflows returns the services with ignored announcements, by name.
func (r *roster) overflows() (all []Overflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, f := range r.refused {
		all = append(all, f.overflow(service))
	}
	slices.SortFunc(all, func(a, b Overflow) int { return cmp.Compare(a.Service, b.Service) })
	return all
}

// tell returns the floods that have begun or ended since the last call.
func (r *roster) tell(now time.Time) (began, ended []Overflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, f := range r.refused {
		switch flooding := now.Sub(f.last) < floodOver; {
		case flooding && !f.told:
			began = append(began, f.overflow(service))
			f.told = true
		case !flooding && f.told:
			ended = append(ended, f.overflow(service))
			f.told = false
		}
	}
	return began, ended
}
