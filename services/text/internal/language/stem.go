package language

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
)

// minStem is the number of letters that must remain, so that short words stay distinct.
const minStem = 3

// stemmers are the Snowball project's. It has none for Polish: see polish.go.
var stemmers = map[Language]func(*snowballstem.Env) bool{
	English: english.Stem, Russian: russian.Stem, "de": german.Stem, "es": spanish.Stem, "fr": french.Stem, "it": italian.Stem,
	"pt": portuguese.Stem, "nl": dutch.Stem,
}

// Stem cuts the ending off a folded word, so that the forms of one word compare equal; the rest need not
// be a word. The script decides: Cyrillic words are treated as Russian, and Latin ones as English if l has
// no stemmer. Words with digits are not changed.
func Stem(word string, l Language) string {
	first, _ := utf8.DecodeRuneInString(word)
	if strings.ContainsFunc(word, unicode.IsDigit) {
		return word
	}
	switch {
	case unicode.Is(unicode.Cyrillic, first):
		l = Russian
	case !unicode.Is(unicode.Latin, first):
		return word
	case l == Polish:
		return stemPolish(word)
	case stemmers[l] == nil || l == Russian:
		l = English
	}
	env := snowballstem.NewEnv(word)
	stemmers[l](env)
	stem := env.Current()
	// "ошибок" and "ошибка": Snowball leaves the vowel in.
	if short, ok := strings.CutSuffix(stem, "ок"); ok && l == Russian && atLeast(stem, 5) && endsInConsonant(short) {
		stem = short + "к"
	}
	return stem
}

// cutEnding cuts off the first of endings that leaves at least minStem letters.
func cutEnding(word string, endings []string) string {
	for _, ending := range endings {
		stem, ok := strings.CutSuffix(word, ending)
		if ok && utf8.RuneCountInString(stem) >= minStem {
			return stem
		}
	}
	return word
}

// atLeast reports whether word has at least n letters.
func atLeast(word string, n int) bool { return utf8.RuneCountInString(word) >= n }

// endsInConsonant reports whether the last letter of word is a consonant.
func endsInConsonant(word string) bool {
	last, n := utf8.DecodeLastRuneInString(word)
	return n > 0 && !strings.ContainsRune("aąeęioóuyаеиоуыэюя", last)
}

// Singular is the "S" stemmer (Harman 1991): English plurals only.
func Singular(word string) string {
	n := len(word)
	if n <= minStem || word[n-1] != 's' {
		return word
	}
	switch {
	case strings.HasSuffix(word, "ies") && n > 4 && word[n-4] != 'e' && word[n-4] != 'a':
		return word[:n-3] + "y"
	case strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"), strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"):
		return word[:n-2]
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"):
		return word
	}
	return word[:n-1]
}
