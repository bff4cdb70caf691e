package repo

import (
	"slices"
	"testing"
)

// The lines that two texts have in common are in order, equal, and as many as there can be.
func FuzzMatch(f *testing.F) {
	f.Add("abcabba", "cbabac")
	f.Add("", "a")
	f.Add("xaxcxabc", "abcy")
	f.Fuzz(func(t *testing.T, x, y string) {
		if len(x) > 300 || len(y) > 300 {
			return
		}
		numbers := func(s string) (all []uint64) {
			for i := range len(s) {
				all = append(all, uint64(s[i]%8))
			}
			return all
		}
		a, b := numbers(x), numbers(y)
		var m matcher
		got := m.lines(a, b)
		for i, p := range got {
			if a[p.a] != b[p.b] || i > 0 && (p.a <= got[i-1].a || p.b <= got[i-1].b) {
				t.Fatalf("%v %v: %v", a, b, got)
			}
		}
		// The length of the longest common subsequence, row by row.
		row := make([]int, len(b)+1)
		for _, l := range a {
			before := slices.Clone(row)
			for j := range b {
				if row[j+1] = max(before[j+1], row[j]); l == b[j] {
					row[j+1] = before[j] + 1
				}
			}
		}
		if len(got) != row[len(b)] {
			t.Errorf("%v %v: %d pairs, want %d", a, b, len(got), row[len(b)])
		}
	})
}

// Comparing texts with little in common takes a limited number of steps, and their common beginning
// and end are found.
func TestMatchIsBounded(t *testing.T) {
	const most = 20_000
	a, b := make([]uint64, most), make([]uint64, most)
	for i := range most {
		a[i], b[i] = uint64(i%89), uint64(i*i%97)
	}
	a[0], b[0], a[most-1], b[most-1] = 1000, 1000, 1001, 1001
	var m matcher
	got := m.lines(a, b)
	if m.steps > maxSteps+4*most || len(got) < 2 || got[0] != (pair{0, 0}) || got[len(got)-1] != (pair{most - 1, most - 1}) {
		t.Errorf("%d steps, %d pairs", m.steps, len(got))
	}
}
