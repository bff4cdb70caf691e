package probe

import "sync"

// Other is the label value for all values beyond the limit of a LabelLimit.
const Other = "other"

// LabelLimit limits the values of labels that clients choose: a process uses at most so many, and
// all later values become Other. Each value is a series, which the metrics server keeps for
// months.
type LabelLimit[K comparable] struct {
	most int

	mu    sync.RWMutex
	known map[K]struct{}
}

// NewLabelLimit returns a LabelLimit for that many values.
func NewLabelLimit[K comparable](most int) *LabelLimit[K] {
	return &LabelLimit[K]{most: most, known: map[K]struct{}{}}
}

// For reports whether a value may be used: it was used before, or the limit is not reached.
func (r *LabelLimit[K]) For(value K) bool {
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
