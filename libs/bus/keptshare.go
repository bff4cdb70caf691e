package bus

import "container/heap"

// keptShare are the calls of one tenant, or of a caller without one, that are over.
type keptShare struct {
	name shareName
	// order has the oldest first, in two parts: of the first forgotten ones only the names
	// are left.
	order     []*keptCall
	forgotten int
	// calls are those in order, bytes those of their answers.
	calls, bytes weight
}

// weight is what a share has of something, and its place among all shares.
type weight struct{ n, place int }

// heaviest is a heap of shares by one of their weights. First is the one that has most, and
// of those that have the same the one with the oldest call.
type heaviest struct {
	shares []*keptShare
	weight func(*keptShare) *weight
	// all is what the shares have together.
	all int
}

func (h *heaviest) Len() int { return len(h.shares) }

func (h *heaviest) Less(i, j int) bool {
	a, b := h.shares[i], h.shares[j]
	if x, y := h.weight(a).n, h.weight(b).n; x != y {
		return x > y
	}
	return a.order[0].at.Before(b.order[0].at)
}

func (h *heaviest) Swap(i, j int) {
	h.shares[i], h.shares[j] = h.shares[j], h.shares[i]
	h.weight(h.shares[i]).place, h.weight(h.shares[j]).place = i, j
}

// Push is for heap.Push.
func (h *heaviest) Push(s any) {
	h.weight(s.(*keptShare)).place = len(h.shares)
	h.shares = append(h.shares, s.(*keptShare))
}

// Pop is for heap.Remove.
func (h *heaviest) Pop() any {
	last := len(h.shares) - 1
	s := h.shares[last]
	h.shares[last] = nil
	h.shares = h.shares[:last]
	return s
}

// changed has a share at its place again after it got n more; one without calls has none.
func (h *heaviest) changed(s *keptShare, n int) {
	w := h.weight(s)
	w.n += n
	h.all += n
	if len(s.order) > 0 {
		heap.Fix(h, w.place)
	} else {
		heap.Remove(h, w.place)
	}
}
