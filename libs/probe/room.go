package probe

import "sync"

// Other is the label value for all values beyond the limit of a Room.
const Other = "other"

// Room limits the values of labels that clients choose: a process uses at most so many, and
// all later values become Other. Each value is a series, which the metrics server keeps for
// months.
type Room[K comparable] struct {
	most int

	mu    sync.RWMutex
	known map[K]struct{}
}

// NewRoom returns a Room for that many values.
func NewRoom[K comparable](most int) *Room[K] { return &Room[K]{most: most, known: map[K]struct{}{}} }

// For reports whether a value may be used: it was used before, or the limit is not reached.
func (r *Room[K]) For(value K) bool {
	r.mu.RLock()
	_, known := r.known[value]
	r.mu.RUnlock()
	if known {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[value]; !known && len(r.known) >= r.most {
		return false
	}
	r.known[value] = struct{}{}
	return true
}
