package text

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// rouge are ROUGE-1, ROUGE-2 and ROUGE-L.
type rouge [3]float64

func (r *rouge) add(other rouge, weight float64) {
	for i := range r {
		r[i] += weight * other[i]
	}
}

// TestEvalSummaries gives every method as many characters as the reference
// has.
func TestEvalSummaries(t *testing.T) {
	methods := []string{"text service", "lead", "lead-3", "random"}
	sum := map[[3]string]rouge{}
	count := map[[2]string]float64{}
	for _, a := range articles(t) {
		limit := utf8.RuneCountInString(a.summary())
		got, err := read(t, a.text()).Summary(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		want := tokens(t, a.summary())
		score := func(s string) rouge {
			words := tokens(t, s)
			return rouge{rougeN(words, want, 1), rougeN(words, want, 2), rougeL(words, want)}
		}
		count[[2]string{a.language, a.split}]++
		add := func(method string, r rouge, weight float64) {
			key := [3]string{a.language, a.split, method}
			s := sum[key]
			s.add(r, weight)
			sum[key] = s
		}
		all := a.sentences()
		add("text service", score(got), 1)
		missed(a.split, "%s %.2f: %s", a.name, score(got)[0], got)
		add("lead", score(fitting(all, limit, a.joint())), 1)
		add("lead-3", score(strings.Join(all[:3], a.joint())), 1)
		const draws = 50
		random := rand.New(rand.NewPCG(1, 2))
		for range draws {
			add("random", score(drawn(random, all, limit, a.joint())), 1.0/draws)
		}
	}
	rows := [][]string{{"summaries", "R-1 tune", "R-2 tune", "R-L tune", "R-1 held", "R-2 held", "R-L held"}}
	average := map[string]float64{}
	for _, l := range languages {
		for _, m := range methods {
			row := []string{l + " " + m}
			for _, split := range []string{tune, held} {
				for i := range 3 {
					mean := sum[[3]string{l, split, m}][i] / count[[2]string{l, split}]
					row = append(row, figure(mean))
					average[m] += mean / float64(2*3*len(languages))
				}
			}
			rows = append(rows, row)
		}
	}
	for _, m := range methods {
		rows = append(rows, []string{"mean of " + m, figure(average[m])})
	}
	table("Summaries as long as the reference, ROUGE F1", rows)
	floor(t, "mean ROUGE of summaries", average["text service"], 0.50)
	for _, simple := range methods[1:] {
		if average["text service"] < average[simple]+0.05 {
			t.Errorf("summaries are hardly better than %s", simple)
		}
	}
}

// tokens are words in lower case; Chinese ones are characters, as is usual.
func tokens(t *testing.T, s string) []string {
	t.Helper()
	var all []string
	words, err := read(t, s).Words(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range words {
		if w[0] >= 0xE3 {
			all = append(all, strings.Split(w, "")...)
		} else {
			all = append(all, strings.ToLower(w))
		}
	}
	return all
}

// fitting are the first sentences that fit.
func fitting(sentences []string, limit int, joint string) string {
	s := sentences[0]
	for _, next := range sentences[1:] {
		longer := s + joint + next
		if utf8.RuneCountInString(longer) > limit {
			break
		}
		s = longer
	}
	return s
}

// drawn are sentences that fit, drawn at random, in their order.
func drawn(random *rand.Rand, sentences []string, limit int, joint string) string {
	var chosen []int
	for _, i := range random.Perm(len(sentences)) {
		if n := utf8.RuneCountInString(sentences[i] + joint); n <= limit {
			chosen = append(chosen, i)
			limit -= n
		}
	}
	slices.Sort(chosen)
	var all []string
	for _, i := range chosen {
		all = append(all, sentences[i])
	}
	return strings.Join(all, joint)
}
