package bus

import "container/heap"

// keptShare holds the ended calls of one tenant, or of one caller without a tenant.
type keptShare struct {
	name shareName
	// order has the oldest call first. The first calls, forgotten in number, have lost their
	// answers.
	order     []*keptCall
	forgotten int
	// calls counts the calls in order, bytes their answers.
	calls, bytes weight
}

// weight is how much a share has, and its index in the heap.
type weight struct{ n, place int }

// heaviest is a heap of shares by one of their weights. The first share has the most; of equal
// shares, the one with the oldest call comes first.
type heaviest struct {
	shares []*keptShare
	weight func(*keptShare) *weight
	// all is the sum over all shares.
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

// changed restores the heap after a share gained n; a share without calls is removed.
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
