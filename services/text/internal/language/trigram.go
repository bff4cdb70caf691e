package language

import (
	_ "embed"
	"math"
	"strings"
	"sync"
)

//go:embed data/trigrams.txt
var trigramFile string

// trigrams tell the languages most often met apart by three letters in a row,
// where a text has too few words for function words to do so.
type trigrams struct {
	languages []Language
	// rank of three letters in each language, from 1; 0 where it has them
	// seldom or never.
	rank map[string][]uint16
}

var knownTrigrams = sync.OnceValue(func() *trigrams {
	t := &trigrams{rank: make(map[string][]uint16, 12000)}
	var lists []string
	for line := range strings.Lines(trigramFile) {
		code, list, ok := strings.Cut(line, ": ")
		if line[0] == '#' || !ok {
			continue
		}
		t.languages = append(t.languages, Language(code))
		lists = append(lists, list)
	}
	for i, list := range lists {
		n := uint16(0)
		for three := range strings.FieldsSeq(list) {
			n++
			if t.rank[three] == nil {
				t.rank[three] = make([]uint16, len(lists))
			}
			t.rank[three][i] = n
		}
	}
	return t
})

const (
	// flatten keeps the most frequent trigrams, whose ranks are a matter of the
	// texts counted, from deciding alone.
	flatten = 100
	// unranked stands for what is on no list.
	unranked = 5500
	// letterWeight is what a difference of 1 in the logarithm is worth, in
	// function words.
	letterWeight = 0.4
	// likely is the start that languages which most texts are in have.
	likely = 1.5
	// nameWeight is what a word counts that is written with a capital.
	nameWeight = 0.4
	// certain is what the best fit is worth, and otherwise what a language is
	// that has no list here, in function words.
	certain, otherwise = 0.8, -0.2
	// mostAgainst is the worst that letters can say, in function words.
	mostAgainst = 4.0
	// strange is the mean logarithm from which letters fit no language.
	strange = 8.2
)

// add adds the logarithms of how likely a word's letters are, and returns how
// many threes it has. A name says less: it may be at home in any language.
func (t *trigrams) add(scores []float64, word string, name bool) float64 {
	weight := 1.0
	if name {
		weight = nameWeight
	}
	edge := []rune("_" + word + "_")
	for i := range len(edge) - 2 {
		ranks := t.rank[string(edge[i:i+3])]
		for l := range scores {
			rank := unranked
			if ranks != nil && ranks[l] > 0 {
				rank = int(ranks[l])
			}
			scores[l] -= weight * math.Log(float64(rank+flatten))
		}
	}
	return weight * float64(len(edge)-2)
}

// evidence is what the letters say for each language: at most certain, and
// less for each by which it is behind the best; nil where they fit none.
func (t *trigrams) evidence(scores []float64, threes float64) map[Language]float64 {
	best := math.Inf(-1)
	for l, code := range t.languages {
		if code == English || code == Polish {
			scores[l] += likely
		}
		best = max(best, scores[l])
	}
	if threes == 0 || best/threes < -strange {
		return nil
	}
	out := make(map[Language]float64, len(scores))
	for l, code := range t.languages {
		out[code] = certain + max(letterWeight*(scores[l]-best), -mostAgainst)
	}
	return out
}

// kin have no list here and are spelt much like the language that has.
var kin = map[Language]Language{"sk": "cs", "nb": "sv", "da": "sv"}

func lettersOf(letters map[Language]float64, l Language) float64 {
	if own, ok := letters[l]; ok {
		return own
	}
	if own, ok := letters[kin[l]]; ok {
		return own
	}
	return otherwise
}
