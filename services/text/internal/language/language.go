// Package language guesses the language of a text and knows, for each of
// English, Polish, Russian and Chinese, its stop words and a light stemmer.
//
// Detection goes by script first and then by the share of stop words: enough
// to tell these four apart, and to say Unknown rather than guess for others.
package language

import (
	"embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Language is an ISO 639-1 code, or Unknown.
type Language string

// The languages known.
const (
	English Language = "en"
	Polish  Language = "pl"
	Russian Language = "ru"
	Chinese Language = "zh"
	// Unknown is ISO 639-2's "undetermined".
	Unknown Language = "und"
)

// sampleBytes is how much of a text Detect reads: more does not change the
// outcome.
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
		set := make(map[string]bool)
		for line := range strings.Lines(string(file)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			for word := range strings.FieldsSeq(line) {
				set[word] = true
			}
		}
		all[l] = set
	}
	return all
})

// IsStopword reports whether word, folded by Fold, carries no topic in a text
// of language l. Words in another script than that of l are judged by the
// language known for their script, so that mixed texts come out right.
func IsStopword(word string, l Language) bool {
	all := stopwords()
	switch first, _ := utf8.DecodeRuneInString(word); {
	case unicode.Is(unicode.Cyrillic, first):
		return all[Russian][word]
	case unicode.Is(unicode.Han, first):
		return all[Chinese][word]
	}
	switch l {
	case Polish:
		return all[Polish][word]
	case Unknown:
		return all[English][word] || all[Polish][word]
	default:
		return all[English][word]
	}
}

// Fold maps a word in Unicode NFC to the form words are compared in: lower
// case, "ё" as "е", a straight apostrophe, no English possessive.
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
	latin, cyrillic, han, kana, other int // letters
	latinWords, cyrillicWords         int
	english, polish, russian          int // stop words
	polishLetters, foreignLatin       int
	foreignCyrillic                   int
}

// Detect guesses the language of text from its first 64 KiB.
func Detect(text string) Language {
	if len(text) > sampleBytes {
		text = strings.ToValidUTF8(text[:sampleBytes], "")
	}
	var t tally
	all := stopwords()
	for w := range segment.Words(text) {
		word := Fold(w.Text)
		latin, cyrillic := t.latin, t.cyrillic
		t.letters(word)
		switch {
		case t.cyrillic > cyrillic:
			t.cyrillicWords++
		case t.latin > latin:
			t.latinWords++
		default:
			continue
		}
		if all[English][word] && w.Text != "i" { // "i" is Polish for "and"
			t.english++
		}
		if all[Polish][word] {
			t.polish++
		}
		if all[Russian][word] {
			t.russian++
		}
	}
	return t.decide()
}

func (t *tally) letters(word string) {
	for _, r := range word {
		switch {
		case unicode.Is(unicode.Latin, r):
			t.latin++
			if r >= 0x80 {
				if strings.ContainsRune("ąćęłńśźż", r) {
					t.polishLetters++
				} else if r != 'ó' && r != 'é' {
					t.foreignLatin++
				}
			}
		case unicode.Is(unicode.Cyrillic, r):
			t.cyrillic++
			if !(r >= 'а' && r <= 'я') {
				t.foreignCyrillic++
			}
		case unicode.Is(unicode.Han, r):
			t.han++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			t.kana++
		case unicode.IsLetter(r):
			t.other++
		}
	}
}

// hanWeight is how many letters one Han character stands for.
const hanWeight = 3

func (t *tally) decide() Language {
	han := hanWeight * (t.han + t.kana)
	switch {
	case t.other > max(t.latin, t.cyrillic, han):
		return Unknown
	case han > max(t.latin, t.cyrillic):
		return t.hanLanguage()
	case t.cyrillic > t.latin:
		return t.cyrillicLanguage()
	}
	l := t.latinLanguage()
	// Prose of another script around program code in Latin letters.
	switch {
	case l != Unknown:
		return l
	case t.cyrillic >= max(han, t.latin/3):
		return t.cyrillicLanguage()
	case han >= t.latin/3:
		return t.hanLanguage()
	}
	return Unknown
}

func (t *tally) hanLanguage() Language {
	// Japanese is Han with kana between.
	if t.han == 0 || t.kana*10 > t.han {
		return Unknown
	}
	return Chinese
}

func (t *tally) cyrillicLanguage() Language {
	// "і", "ї", "ў", "ј" and others are not Russian; nor is a long text without
	// Russian function words.
	if t.cyrillic == 0 || t.foreignCyrillic*100 > t.cyrillic || t.cyrillicWords >= 20 && t.russian*20 < t.cyrillicWords {
		return Unknown
	}
	return Russian
}

func (t *tally) latinLanguage() Language {
	if t.latin == 0 || t.foreignLatin*100 > t.latin {
		return Unknown
	}
	polish := t.polish
	if t.polishLetters*50 > t.latin {
		polish += 1 + t.latinWords/10
	}
	best, hits := English, t.english
	if polish > hits {
		best, hits = Polish, polish
	}
	// Function words are a third of running text or more; other languages in
	// Latin script share a few by chance.
	if hits == 0 || t.latinWords >= 12 && hits*6 < t.latinWords {
		return Unknown
	}
	return best
}
