// Package language detects the language of a text, knows the stop words of English, Polish, Russian and
// Chinese, and stems words: Polish by its own rules, other languages by the Snowball project's stemmers.
// It tells some thirty languages apart; of any other it knows function words at most. Start at Detect.
package language

import (
	"embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/contact"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Language is an ISO 639-1 code, or Unknown.
type Language string

// The languages known well.
const (
	English Language = "en"
	Polish  Language = "pl"
	Russian Language = "ru"
	Chinese Language = "zh"
	// Unknown is ISO 639-2's "undetermined".
	Unknown Language = "und"
)

// sampleBytes is how much of a text Detect reads; more does not change the outcome.
const sampleBytes = 64 << 10

//go:embed data/stopwords_*.txt
var stopwordFiles embed.FS

var stopwords = sync.OnceValue(func() map[Language]map[string]bool {
	all := make(map[Language]map[string]bool)
	for _, l := range []Language{English, Polish, Russian, Chinese} {
		file, err := stopwordFiles.ReadFile("data/stopwords_" + string(l) + ".txt")
		if err != nil {
			panic(err) // embedded: cannot be missing in a built program
		}
		var words strings.Builder
		for line := range strings.Lines(string(file)) {
			if !strings.HasPrefix(line, "#") {
				words.WriteString(line)
			}
		}
		all[l] = set(words.String())
	}
	return all
})

// IsStopword reports whether word, folded by Fold, carries no topic in a text of language l. Words
// in another script than l's are judged by the language known for their script, so that mixed texts
// work.
func IsStopword(word string, l Language) bool {
	all := stopwords()
	switch first, _ := utf8.DecodeRuneInString(word); {
	case unicode.Is(unicode.Cyrillic, first):
		if l == "uk" || l == "be" || l == "bg" || l == "sr" {
			return knownProfiles().stopwordsOf(l)[word]
		}
		return all[Russian][word] || inflected(word, Russian)
	case unicode.Is(unicode.Han, first):
		return all[Chinese][word]
	}
	switch l {
	case Polish:
		return all[Polish][word] || inflected(word, Polish)
	case Unknown:
		return all[English][word] || all[Polish][word]
	case English, Russian, Chinese:
		return all[English][word]
	}
	return knownProfiles().stopwordsOf(l)[word]
}

// stopStems holds the stems of stop words that are declined and long enough not to share their stem with
// another word.
var stopStems = sync.OnceValue(func() map[Language]map[string]bool {
	const long = 4
	all := make(map[Language]map[string]bool)
	for l, endings := range map[Language][]string{
		Polish: {"y", "i", "a", "e", "o", "ego", "ych", "ich"}, Russian: {"ый", "ий", "ой", "ая", "ое", "ые", "ие", "ого", "ых", "то", "ся"},
	} {
		all[l] = make(map[string]bool)
		for word := range stopwords()[l] {
			declined := slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(word, e) })
			if stem := Stem(word, l); declined && atLeast(word, long) && atLeast(stem, minStem) {
				all[l][stem] = true
			}
		}
	}
	return all
})

// inflected reports whether word is a form of a stop word: "takiego" of "taki". Nouns with the same stem
// have other endings.
func inflected(word string, l Language) bool {
	endings := []string{"ego", "emu", "ych", "ymi", "ym", "ich", "imi", "im", "iej", "ej", "ą", "y", "i", "a", "e"}
	if l == Russian {
		endings = []string{"ого", "его", "ому", "ему", "ых", "их", "ыми", "ими", "ым", "им", "ой", "ей", "ую", "юю", "ом", "ем", "ый", "ий", "ая", "яя", "ое", "ее", "ые", "ие"}
	}
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(word, e) }) && stopStems()[l][Stem(word, l)]
}

// Fold maps a word in Unicode NFC to the form in which words are compared: lower case, "ё" as "е", a
// straight apostrophe, no English possessive.
func Fold(word string) string {
	word = strings.ToLower(word)
	if strings.ContainsAny(word, "ё’") {
		word = folder.Replace(word)
	}
	return strings.TrimSuffix(word, "'s")
}

var folder = strings.NewReplacer("ё", "е", "’", "'")

// tally is what Detect counts.
type tally struct {
	latin, cyrillic, han, kana int // letters
	other                      map[Language]int
	latinWords, cyrillicWords  evidence
	notRussian, notUkrainian   int // letters
}

// Detect guesses the language of text from its first 64 KiB: by script if that is enough, otherwise by
// frequent words and by letters outside the basic alphabet.
func Detect(text string) Language {
	if len(text) > sampleBytes {
		text = strings.ToValidUTF8(text[:sampleBytes], "")
	}
	text = contact.Blank(text)
	t := tally{other: make(map[Language]int)}
	p := knownProfiles()
	end := 0 // of the word before
	for w := range segment.Words(text) {
		word := Fold(w.Text)
		latin, cyrillic := t.latin, t.cyrillic
		first, _ := utf8.DecodeRuneInString(w.Text)
		name := unicode.IsUpper(first) && end > 0 && !strings.ContainsAny(text[end:w.Start], ".!?\n")
		end = w.End()
		t.letters(strings.ToLower(w.Text))
		switch {
		case t.cyrillic > cyrillic:
			t.cyrillicWords.add(p, word, true, name)
		case t.latin > latin && !strings.ContainsAny(word, "0123456789_") && !isIdentifier(w.Text):
			if w.Text == "I" {
				word = "i'm" // "i" is another language's "and"
			}
			t.latinWords.add(p, word, false, name)
		}
	}
	return t.decide(p)
}

// isIdentifier reports whether a word comes from program code: a small letter, later a capital.
func isIdentifier(word string) bool {
	small := false
	for _, r := range word {
		if small && unicode.IsUpper(r) {
			return true
		}
		small = small || unicode.IsLower(r)
	}
	return false
}

// scripts lists scripts with the language, or the best known of several, that is written in them.
var scripts = []struct {
	table    *unicode.RangeTable
	language Language
}{
	{unicode.Hangul, "ko"}, {unicode.Arabic, "ar"}, {unicode.Hebrew, "he"}, {unicode.Greek, "el"}, {unicode.Devanagari, "hi"},
	{unicode.Thai, "th"}, {unicode.Georgian, "ka"}, {unicode.Armenian, "hy"}, {unicode.Bengali, "bn"}, {unicode.Tamil, "ta"},
}

func (t *tally) letters(word string) {
	for _, r := range word {
		switch {
		case r < 0x80 || unicode.Is(unicode.Latin, r):
			if r >= 'a' && r <= 'z' || r >= 0x80 {
				t.latin++
			}
		case unicode.Is(unicode.Cyrillic, r):
			t.cyrillic++
			switch r {
			case 'ы', 'э', 'ё':
				t.notUkrainian++
			case 'і', 'ї', 'є', 'ґ', 'ў', 'ј', 'љ', 'њ', 'ћ', 'ђ', 'џ':
				t.notRussian++
			}
		case unicode.Is(unicode.Han, r):
			t.han++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			t.kana++
		case unicode.IsLetter(r):
			for _, s := range scripts {
				if unicode.Is(s.table, r) {
					t.other[s.language]++
					break
				}
			}
		}
	}
}

// hanWeight is the number of letters that one Han character counts for.
const hanWeight = 3

func (t *tally) decide(p *profiles) Language {
	han := hanWeight * (t.han + t.kana)
	for _, s := range scripts {
		if t.other[s.language] > max(t.latin, t.cyrillic, han) {
			return s.language
		}
	}
	switch {
	case han > max(t.latin, t.cyrillic):
		return t.hanLanguage()
	case t.cyrillic > t.latin:
		return t.cyrillicLanguage(p)
	}
	l := t.latinWords.best(p, false)
	// The prose is in another script; names and program code are in Latin letters.
	switch {
	case t.latin == 0, l != Unknown && t.latinWords.scored(p, l):
		return l
	case t.cyrillic > 0 && t.cyrillic >= max(han, t.latin/3):
		return t.cyrillicLanguage(p)
	case han > 0 && han >= t.latin/3:
		return t.hanLanguage()
	}
	return l
}

func (t *tally) hanLanguage() Language {
	// Japanese mixes Han with kana.
	if t.kana*10 > t.han {
		return "ja"
	}
	return Chinese
}

func (t *tally) cyrillicLanguage(p *profiles) Language {
	l := t.cyrillicWords.best(p, true)
	switch {
	case l == Unknown && t.cyrillicWords.words < few && t.notRussian == 0:
		return Russian // by far the most frequent
	case (l == "bg" || l == "uk") && t.notUkrainian > t.notRussian:
		return Russian
	}
	return l
}
