package bus

import "time"

// recentCalls remembers the ids of calls until their deadlines, after which a copy of the request
// is refused as late. It remembers at most maxRecent for longer. Two generations replace a timer
// per call: an id is forgotten at the second change of generations after its deadline, or after
// that many newer ids.
type recentCalls struct {
	young, old map[string]struct{}
	// until is the latest deadline in each generation.
	youngUntil, oldUntil time.Time
}

// generation is the least number of ids kept, maxRecent the largest, about 20 MiB.
const generation, maxRecent = 4096, 128 << 10

// add reports whether the id is new.
func (r *recentCalls) add(id string, deadline time.Time) bool {
	if _, seen := r.young[id]; seen {
		return false
	}
	if _, seen := r.old[id]; seen {
		return false
	}
	if len(r.young) >= generation && time.Now().After(r.oldUntil) || len(r.young) >= maxRecent/2 || r.young == nil {
		r.old, r.oldUntil = r.young, r.youngUntil
		r.young, r.youngUntil = make(map[string]struct{}, generation), time.Time{}
	}
	r.young[id] = struct{}{}
	if deadline.After(r.youngUntil) {
		r.youngUntil = deadline
	}
	return true
}
