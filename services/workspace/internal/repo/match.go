package repo

// maxSteps bounds the work of one comparison: anything not compared by then counts as different.
const maxSteps = 8 << 20

// pair says that line b of one text equals line a of another.
type pair struct{ a, b int }

// matcher finds the lines that two texts have in common, in order. It uses the shortest edit script (Myers
// 1986), divided in the middle, with memory linear in the texts.
type matcher struct {
	// front and back hold the progress of the search on each diagonal, from either end.
	front, back []int
	steps       int
	found       []pair
}

// lines returns the pairs of equal lines of two texts, in order.
func (m *matcher) lines(a, b []uint64) []pair {
	m.steps, m.found = 0, nil
	m.compare(a, b, 0, 0)
	return m.found
}

func (m *matcher) compare(a, b []uint64, fromA, fromB int) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		m.found = append(m.found, pair{fromA, fromB})
		a, b, fromA, fromB = a[1:], b[1:], fromA+1, fromB+1
	}
	tail := 0
	for tail < min(len(a), len(b)) && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	endA, endB := len(a)-tail, len(b)-tail
	if x, y, ok := m.middle(a[:endA], b[:endB]); ok {
		m.compare(a[:x], b[:y], fromA, fromB)
		m.compare(a[x:endA], b[y:endB], fromA+x, fromB+y)
	}
	for i := range tail {
		m.found = append(m.found, pair{fromA + endA + i, fromB + endB + i})
	}
}

// middle returns a point on a shortest edit script; false if the texts have nothing in common, or the
// search takes too many steps.
func (m *matcher) middle(a, b []uint64) (x, y int, ok bool) {
	n, k := len(a), len(b)
	if n == 0 || k == 0 {
		return 0, 0, false
	}
	most := (n + k + 1) / 2
	room := 2*most + 2
	if len(m.front) < room {
		m.front, m.back = make([]int, room), make([]int, room)
	}
	front, back := m.front[:room], m.back[:room]
	for i := range front {
		front[i], back[i] = -1, -1
	}
	front[most+1], back[most+1] = 0, 0
	m.steps += room
	delta := n - k
	// Diagonals that have left the texts are skipped.
	var low, high, lowBack, highBack int
	for d := range most {
		if m.steps += 2 * (d + 1); m.steps > maxSteps {
			return 0, 0, false
		}
		for i := -d + low; i <= d-high; i += 2 {
			x := reach(front, most+i, i == -d, i == d)
			y := x - i
			for ; x < n && y < k && a[x] == b[y]; x, y = x+1, y+1 {
				m.steps++
			}
			front[most+i] = x
			switch other := most + delta - i; {
			case x > n:
				high += 2
			case y > k:
				low += 2
			case delta%2 != 0 && other >= 0 && other < room && back[other] != -1 && x >= n-back[other]:
				return x, y, true
			}
		}
		for i := -d + lowBack; i <= d-highBack; i += 2 {
			x := reach(back, most+i, i == -d, i == d)
			y := x - i
			for ; x < n && y < k && a[n-1-x] == b[k-1-y]; x, y = x+1, y+1 {
				m.steps++
			}
			back[most+i] = x
			switch other := most + delta - i; {
			case x > n:
				highBack += 2
			case y > k:
				lowBack += 2
			case delta%2 == 0 && other >= 0 && other < room && front[other] != -1 && front[other] >= n-x:
				return front[other], front[other] - (other - most), true
			}
		}
	}
	return 0, 0, false
}

// reach returns where a diagonal begins: at the farther of its neighbours.
func reach(on []int, at int, lowest, highest bool) int {
	if lowest || !highest && on[at-1] < on[at+1] {
		return on[at+1]
	}
	return on[at-1] + 1
}
