package probe

import "sync"

// Other is the value of a label for all that there is no Room for.
const Other = "other"

// Room bounds the values of labels that others choose: there are at most so many of them
// for as long as the process lives, and all later ones are Other. Each value is a series,
// which whoever reads the figures keeps for months.
type Room[K comparable] struct {
	most int

	mu    sync.RWMutex
	known map[K]struct{}
}

// NewRoom makes room for that many values.
func NewRoom[K comparable](most int) *Room[K] { return &Room[K]{most: most, known: map[K]struct{}{}} }

// For reports whether there is room for a value: there is for those that had it before.
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
