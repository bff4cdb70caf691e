// Package trigram distinguishes the most common languages by sequences of three letters, for texts
// that have too few function words. Start reading at Tally.
package trigram

import (
	_ "embed"
	"math"
	"strings"
	"sync"
)

//go:embed data/trigrams.txt
var file string

// table is data/trigrams.txt.
type table struct {
	languages []string
	// rank is the rank of three letters in each language, from 1; 0 if they are rare there.
	rank map[string][]uint16
}

var known = sync.OnceValue(func() *table {
	t := &table{rank: make(map[string][]uint16, 12000)}
	var lists []string
	for line := range strings.Lines(file) {
		language, list, ok := strings.Cut(line, ": ")
		if line[0] != '#' && ok {
			t.languages = append(t.languages, language)
			lists = append(lists, list)
		}
	}
	for l, list := range lists {
		n := uint16(0)
		for three := range strings.FieldsSeq(list) {
			n++
			if t.rank[three] == nil {
				t.rank[three] = make([]uint16, len(lists))
			}
			t.rank[three][l] = n
		}
	}
	return t
})

const (
	// flatten keeps the most frequent trigrams, whose ranks depend on the counted texts, from
	// deciding alone.
	flatten = 100
	// unranked is the rank of trigrams that are on no list.
	unranked = 5500
	// likely is the head start of English and Polish, the languages of most texts here.
	likely = 1.5
	// strange is the mean logarithm from which letters fit no language.
	strange = 8.2
)

// Tally gathers words in Latin letters. The zero Tally is empty.
type Tally struct {
	logs   []float64 // by language
	threes float64
}

// Add adds a word in lower case. weight is 1, or less for a word that may occur in any language,
// such as a name.
func (t *Tally) Add(word string, weight float64) {
	k := known()
	if t.logs == nil {
		t.logs = make([]float64, len(k.languages))
	}
	edge := []rune("_" + word + "_")
	for i := range len(edge) - 2 {
		ranks := k.rank[string(edge[i:i+3])]
		for l := range t.logs {
			rank := unranked
			if ranks != nil && ranks[l] > 0 {
				rank = int(ranks[l])
			}
			t.logs[l] -= weight * math.Log(float64(rank+flatten))
		}
	}
	t.threes += weight * float64(len(edge)-2)
}

// Behind returns by how much (in natural logarithms of likelihood) each language is behind the best
// one, which has 0. It is nil if the letters fit no language.
func (t *Tally) Behind() map[string]float64 {
	best := math.Inf(-1)
	score := func(l int) float64 {
		if language := known().languages[l]; language == "en" || language == "pl" {
			return t.logs[l] + likely
		}
		return t.logs[l]
	}
	for l := range t.logs {
		best = max(best, score(l))
	}
	if t.threes == 0 || best/t.threes < -strange {
		return nil
	}
	out := make(map[string]float64, len(t.logs))
	for l := range t.logs {
		out[known().languages[l]] = best - score(l)
	}
	return out
}
