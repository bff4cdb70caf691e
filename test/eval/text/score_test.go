package text

import (
	"math"
	"testing"
	"unicode"
)

// tally counts the results found, the results wanted, and those in both.
type tally struct{ found, wanted, right int }

func (c *tally) add(other tally) {
	c.found += other.found
	c.wanted += other.wanted
	c.right += other.right
}

func (c tally) precision() float64 { return share(c.right, c.found) }
func (c tally) recall() float64    { return share(c.right, c.wanted) }

func (c tally) f1() float64 { return share(2*c.right, c.found+c.wanted) }

// share of nothing is 1: nothing was wrong.
func share(part, all int) float64 {
	if all == 0 {
		return 1
	}
	return float64(part) / float64(all)
}

// spans are the places, counted in characters without white space, where the
// pieces lie in the text they make up.
func spans(pieces []string) map[[2]int]bool {
	all := map[[2]int]bool{}
	at := 0
	for _, p := range pieces {
		start := at
		for _, r := range p {
			if !unicode.IsSpace(r) {
				at++
			}
		}
		all[[2]int{start, at}] = true
	}
	return all
}

// compare counts the pieces that lie in the same place.
func compare(found, wanted []string) tally {
	a, b := spans(found), spans(wanted)
	c := tally{found: len(a), wanted: len(b)}
	for s := range a {
		if b[s] {
			c.right++
		}
	}
	return c
}

// rougeN is the F1 of n-grams (Lin 2004).
func rougeN(got, want []string, n int) float64 {
	a, b := grams(got, n), grams(want, n)
	c := tally{found: max(len(got)-n+1, 0), wanted: max(len(want)-n+1, 0)}
	for g, k := range a {
		c.right += min(k, b[g])
	}
	return c.f1()
}

func grams(words []string, n int) map[string]int {
	all := map[string]int{}
	for i := 0; i+n <= len(words); i++ {
		key := ""
		for _, w := range words[i : i+n] {
			key += w + "\x00"
		}
		all[key]++
	}
	return all
}

// rougeL is the F1 of the longest common subsequence.
func rougeL(got, want []string) float64 {
	row := make([]int, len(want)+1)
	for _, g := range got {
		diagonal := 0
		for j, w := range want {
			above := row[j+1]
			if g == w {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return tally{found: len(got), wanted: len(want), right: row[len(want)]}.f1()
}

func TestScores(t *testing.T) {
	t.Parallel()
	got, want := []string{"a", "b", "c", "d"}, []string{"a", "c", "b", "d"}
	for _, tt := range []struct {
		name string
		got  float64
		want float64
	}{
		{"words", rougeN(got, want, 1), 1},
		{"pairs", rougeN(got, want, 2), 0},
		{"pairs alike", rougeN(got, got[:3], 2), 0.8},
		{"sequence", rougeL(got, want), 0.75},
		{"pieces", compare([]string{"ab", "c"}, []string{"a b", "c"}).f1(), 1},
		{"one boundary off", compare([]string{"ab", "c", "d"}, []string{"a", "bc", "d"}).f1(), 1.0 / 3},
		{"nothing", tally{}.f1(), 1},
		{"precision", tally{found: 4, wanted: 2, right: 1}.precision(), 0.25},
		{"recall", tally{found: 4, wanted: 2, right: 1}.recall(), 0.5},
	} {
		if math.Abs(tt.got-tt.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
