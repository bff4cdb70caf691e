package language

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/busbar-mcp/busbar/libs/trigram"
)

//go:embed data/profiles.txt
var profileFile string

// profile describes a language written in the Latin or the Cyrillic script.
type profile struct {
	language Language
	cyrillic bool
	letters  string          // beyond the basic alphabet
	stop     map[string]bool // function words
}

// profiles holds the content of profiles.txt, and for each word the profiles that contain it, as bits.
type profiles struct {
	all   []profile
	words map[string]uint64
}

var knownProfiles = sync.OnceValue(func() *profiles {
	p := &profiles{words: make(map[string]uint64, 4000)}
	for line := range strings.Lines(profileFile) {
		if line[0] == '#' {
			continue
		}
		head, words, _ := strings.Cut(line, ":")
		code, letters, _ := strings.Cut(strings.TrimSpace(head), " ")
		function, frequent, _ := strings.Cut(words, "|")
		next := profile{language: Language(code), letters: letters, stop: set(function)}
		if own, ok := stopwords()[next.language]; ok {
			next.stop = own
		}
		bit := uint64(1) << len(p.all)
		for word := range next.stop {
			next.cyrillic = next.cyrillic || strings.ContainsFunc(word, isCyrillic)
			if word != "i" || next.language != English { // "I", and elsewhere "and"
				p.words[word] |= bit
			}
		}
		for word := range strings.FieldsSeq(frequent) {
			p.words[word] |= bit
		}
		p.all = append(p.all, next)
	}
	return p
})

func isCyrillic(r rune) bool { return unicode.Is(unicode.Cyrillic, r) }

func set(words string) map[string]bool {
	s := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}

// stopwordsOf returns the function words of a language, nil if none are known.
func (p *profiles) stopwordsOf(l Language) map[string]bool {
	i := slices.IndexFunc(p.all, func(q profile) bool { return q.language == l })
	if i < 0 {
		return nil
	}
	return p.all[i].stop
}

// Weights of evidence for and against a language, in words.
const (
	ownLetters   = 0.6  // a word with letters beyond the basic alphabet, all of them the language's
	otherLetters = -1.0 // a word with a letter that the language lacks
)

// evidence is the weight of the words of one script for each profile.
type evidence struct {
	scores []float64
	// letters are counted apart: they decide only if a text has few words.
	letters trigram.Tally
	words   int
}

// add counts a word. A name, which starts with a capital, may have letters of another language.
func (e *evidence) add(p *profiles, word string, cyrillic, name bool) {
	if e.scores == nil {
		e.scores = make([]float64, len(p.all))
	}
	e.words++
	mask := p.words[word]
	special := strings.ContainsFunc(word, func(r rune) bool { return beyond(r, cyrillic) })
	for i := range p.all {
		if p.all[i].cyrillic != cyrillic {
			continue
		}
		if mask&(1<<i) != 0 {
			e.scores[i]++
		}
		if !special {
			continue
		}
		if strings.ContainsFunc(word, func(r rune) bool { return beyond(r, cyrillic) && !strings.ContainsRune(p.all[i].letters, r) }) {
			if !name {
				e.scores[i] += otherLetters
			}
		} else {
			e.scores[i] += ownLetters
		}
	}
	if !cyrillic && e.words <= few {
		weight := 1.0
		if name {
			weight = nameWeight
		}
		e.letters.Add(word, weight)
	}
}

// beyond reports whether r is a letter outside a-z or, in Cyrillic, а-я.
func beyond(r rune, cyrillic bool) bool {
	if cyrillic {
		return !(r >= 'а' && r <= 'я') && isCyrillic(r)
	}
	return r >= 0x80 && unicode.IsLetter(r)
}

// few is the number of words below which sequences of three letters count.
const few = 12

// best returns the language with the most evidence, or Unknown if there is too little for the
// number of words.
func (e *evidence) best(p *profiles, cyrillic bool) Language {
	if e.words == 0 {
		return Unknown
	}
	var behind map[string]float64
	if !cyrillic && e.words <= few {
		behind = e.letters.Behind()
	}
	best, top := Unknown, 0.0
	for i, q := range p.all {
		score := e.scores[i]
		if behind != nil {
			score += letters(behind, q.language)
		}
		if q.cyrillic == cyrillic && score > top+1e-9 {
			best, top = q.language, score
		}
	}
	// At least a third of running text is function words; other languages
	// share a few by chance.
	if e.words >= few && top*8 < float64(e.words) {
		return Unknown
	}
	return best
}

// scored reports whether the evidence for l is more than letter sequences, and more than one word of a
// command.
func (e *evidence) scored(p *profiles, l Language) bool {
	i := slices.IndexFunc(p.all, func(q profile) bool { return q.language == l })
	return i >= 0 && len(e.scores) > 0 && e.scores[i] > 1
}
