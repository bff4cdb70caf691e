// Package readability rates how hard a text is to read (start at Rate), by a published formula
// for its language if there is one:
//
//   - English: Flesch reading ease (Flesch 1948), about 0 to 100, higher is
//     easier.
//   - Russian: Flesch reading ease with the weights of Oborneva (2006), same
//     scale.
//   - Polish: Pisarek (1969), linear: about the years of schooling needed,
//     lower is easier.
//   - Chinese: mean characters per sentence, lower is easier. No accepted
//     formula works without a word list, so this is a plain measure and its
//     levels are this package's own.
//   - Other languages: LIX (Björnsson 1968), lower is easier.
//
// All of them look only at the lengths of words and sentences, and mean little
// for texts of fewer than a hundred words.
package readability

import (
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Rating is the outcome of one formula.
type Rating struct {
	// Score is rounded to one decimal; its scale depends on Formula.
	Score float64
	// Formula names the formula: "flesch-reading-ease",
	// "flesch-reading-ease-oborneva", "pisarek-linear",
	// "characters-per-sentence" or "lix".
	Formula string
	// Level puts the score in words, "very easy" to "very difficult", to make
	// languages comparable.
	Level string
	// Language is the detected language of the text.
	Language language.Language
}

// counts holds the input of the formulas.
type counts struct {
	sentences, words, characters, syllables int
	han                                     int // words that are Han characters
	long                                    int // words of more than 6 characters, for LIX
	hard                                    int // words of at least 4 syllables, for Pisarek
}

// Rate rates the text of sentences, which is in language l. A text without
// words scores 0 at level "very easy".
func Rate(ctx context.Context, sentences []segment.Sentence, l language.Language) (Rating, error) {
	var c counts
	for i, s := range sentences {
		if i%256 == 0 && ctx.Err() != nil {
			return Rating{}, ctx.Err()
		}
		c.add(s.Text, l)
	}
	r := c.rate(l)
	r.Language = l
	r.Score = math.Round(r.Score*10) / 10
	return r, nil
}

func (c *counts) add(sentence string, l language.Language) {
	c.sentences++
	for w := range segment.Words(sentence) {
		c.words++
		n := utf8.RuneCountInString(w.Text)
		c.characters += n
		if segment.IsHan(w.Text) {
			c.han++
			continue
		}
		if n > 6 {
			c.long++
		}
		syllables := Syllables(w.Text, l)
		c.syllables += syllables
		if syllables >= 4 {
			c.hard++
		}
	}
}

func (c *counts) rate(l language.Language) Rating {
	// The formula by character also applies to Japanese and undetected Chinese.
	byCharacter := l == language.Chinese || c.han*2 > c.words
	if c.words == 0 {
		*c = counts{sentences: 1}
	}
	words, sentences := float64(max(c.words, 1)), float64(c.sentences)
	wordsPerSentence := float64(c.words) / sentences
	syllablesPerWord := float64(c.syllables) / words
	switch {
	case byCharacter:
		score := float64(c.characters) / sentences
		return Rating{Score: score, Formula: "characters-per-sentence", Level: rising(score, 12, 20, 30, 45)}
	case l == language.English:
		score := 206.835 - 1.015*wordsPerSentence - 84.6*syllablesPerWord
		return Rating{Score: score, Formula: "flesch-reading-ease", Level: rising(-score, -80, -60, -50, -30)}
	case l == language.Russian:
		score := 206.835 - 1.3*wordsPerSentence - 60.1*syllablesPerWord
		return Rating{Score: score, Formula: "flesch-reading-ease-oborneva", Level: rising(-score, -80, -60, -50, -30)}
	case l == language.Polish:
		score := wordsPerSentence/3 + 100*float64(c.hard)/words/3 + 1
		return Rating{Score: score, Formula: "pisarek-linear", Level: rising(score, 6, 9, 12, 15)}
	}
	score := wordsPerSentence + 100*float64(c.long)/words
	return Rating{Score: score, Formula: "lix", Level: rising(score, 30, 40, 50, 60)}
}

// rising names the level of a score that grows with difficulty.
func rising(score float64, bounds ...float64) string {
	levels := []string{"very easy", "easy", "medium", "difficult", "very difficult"}
	for i, bound := range bounds {
		if score <= bound {
			return levels[i]
		}
	}
	return levels[len(bounds)]
}

const (
	englishVowels = "aeiouy"
	polishVowels  = "aąeęioóuy"
	russianVowels = "аеёиоуыэюя"
	otherVowels   = "aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿąęœůűőаеёиоуыэюяіїє"
)

// Syllables counts the syllables of a word, at least 1: every vowel in Russian, every vowel except a
// softening "i" in Polish, groups of vowels without a silent final "e" in English, and groups of vowels
// otherwise. A word without vowels or with digits counts as 1.
func Syllables(word string, l language.Language) int {
	word = strings.ToLower(word)
	first, _ := utf8.DecodeRuneInString(word)
	n := 0
	switch {
	case unicode.Is(unicode.Cyrillic, first) && l == language.Russian:
		for _, r := range word {
			if strings.ContainsRune(russianVowels, r) {
				n++
			}
		}
	case l == language.Polish:
		softening := false
		for _, r := range word {
			vowel := strings.ContainsRune(polishVowels, r)
			if vowel && !softening {
				n++
			}
			// The "i" counted stands for the vowel it softens into.
			softening = r == 'i' && !softening
		}
	case l == language.English:
		n = groups(word, englishVowels)
		silent := strings.HasSuffix(word, "e") && !strings.HasSuffix(word, "le") ||
			strings.HasSuffix(word, "ed") && !strings.HasSuffix(word, "ted") && !strings.HasSuffix(word, "ded")
		if silent && n > 1 {
			n--
		}
	default:
		n = groups(word, otherVowels)
	}
	return max(n, 1)
}

// groups counts the runs of vowels in word.
func groups(word, vowels string) int {
	n, inside := 0, false
	for _, r := range word {
		vowel := strings.ContainsRune(vowels, r)
		if vowel && !inside {
			n++
		}
		inside = vowel
	}
	return n
}
