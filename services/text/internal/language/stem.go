package language

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Letters that must remain, so that short words stay apart.
const minStem = 3

// Stem cuts the inflectional ending off a folded word, so that the forms of
// one word compare equal; what is left need not be a word. Derivation
// ("teach", "teacher") is left alone. The script decides: Cyrillic words are
// taken for Russian; Latin ones for Polish if l is Polish and for English
// otherwise. Words with digits are left alone.
func Stem(word string, l Language) string {
	first, _ := utf8.DecodeRuneInString(word)
	if strings.ContainsFunc(word, unicode.IsDigit) {
		return word
	}
	switch {
	case unicode.Is(unicode.Cyrillic, first):
		return stemRussian(word)
	case !unicode.Is(unicode.Latin, first):
		return word
	case l == Polish:
		return stemPolish(word)
	}
	return stemEnglish(word)
}

// cutEnding cuts off the first of endings that leaves enough.
func cutEnding(word string, endings []string) string {
	for _, ending := range endings {
		stem, ok := strings.CutSuffix(word, ending)
		if ok && utf8.RuneCountInString(stem) >= minStem {
			return stem
		}
	}
	return word
}

// atLeast reports whether word has n letters or more.
func atLeast(word string, n int) bool { return utf8.RuneCountInString(word) >= n }

// endsInConsonant looks at the last letter of word.
func endsInConsonant(word string) bool {
	last, n := utf8.DecodeLastRuneInString(word)
	return n > 0 && !strings.ContainsRune("aąeęioóuyаеиоуыэюя", last)
}

var (
	russianEndings = strings.Fields(`
		иями остями
		ости ость ами ями ого его ому ему ыми ими иях иям ием ией ете ишь ешь аем ают яют
		ать ять ить еть ует уют
		ов ев ей ах ях ом ем ам ям ой ий ый ая яя ое ее ие ые их ых ую юю им ым ия ии ию ью ют ут ят ет ит
		а я о е ы и у ю ь й`)
	// russianThemes are what is left of verbs: "читал", "чита-ет".
	russianThemes = strings.Fields("ал ил ыва ива ова а")
	// Nouns that end like infinitives.
	russianNouns = map[string]string{"память": "памят", "печать": "печат", "кровать": "кроват", "тетрадь": "тетрад", "сеть": "сет"}
)

func stemRussian(word string) string {
	if stem, ok := russianNouns[word]; ok {
		return stem
	}
	stem := cutEnding(cutEnding(word, russianEndings), russianThemes)
	// "ошибок" beside "ошибка"
	if short, ok := strings.CutSuffix(stem, "ок"); ok && atLeast(stem, 5) && endsInConsonant(short) {
		stem = short + "к"
	}
	return stem
}

// stemEnglish undoes plurals, "-ing" and "-ed", and drops a final "e", which
// those may have swallowed.
func stemEnglish(word string) string {
	word = Singular(word)
	switch base, ok := strings.CutSuffix(word, "ied"); {
	case ok && len(base) >= 2:
		return base + "y"
	case strings.HasSuffix(word, "eed"):
		return word
	}
	for _, ending := range []string{"ing", "ed"} {
		if base, ok := strings.CutSuffix(word, ending); ok && len(base) >= minStem && strings.ContainsAny(base, "aeiouy") {
			word = base
			if n := len(word); n > minStem && word[n-1] == word[n-2] && strings.IndexByte("bdgmnprt", word[n-1]) >= 0 {
				word = word[:n-1] // "stopp"
			}
			break
		}
	}
	if base, ok := strings.CutSuffix(word, "e"); ok && len(base) >= minStem {
		return base
	}
	return word
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
