package language

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Inflectional endings, longest first within each list. They are cut so that
// the forms of one word compare equal, not to find its true root: derivation
// ("teach", "teacher") is left alone.
var (
	russianEndings = strings.Fields(`
		иями остями
		ости ость ами ями ого его ому ему ыми ими иях иям ием ией ете ишь ешь ают яют
		ать ять ить еть ует уют
		ов ев ей ах ях ом ем ам ям ой ий ый ая яя ое ее ие ые их ых ую юю им ым ия ии ию ью ют ут ят ет ит
		а я о е ы и у ю ь й`)
	polishEndings = strings.Fields(`
		ościami ościach
		ością ości iami iach iego iemu ymi imi ego emu ych ich ami ach owi owie ość
		ów om em ie ia ię ią iu ej ym im ą ę
		a e i o u y`)
)

// polishAlternations undoes the changes that endings bring about in a stem:
// "protokół, protokołu", "żądanie, żądań", "odpowiedź, odpowiedzi".
var polishAlternations = strings.NewReplacer("ó", "o", "ń", "n", "ź", "z", "ś", "s", "ć", "c")

// Letters that must remain, so that short words stay apart.
const minStem = 3

// Stem cuts the inflectional ending off a folded word. The script decides:
// Cyrillic words are taken for Russian; Latin ones for Polish if l is Polish
// and for English otherwise. Words with digits are left alone.
func Stem(word string, l Language) string {
	first, _ := utf8.DecodeRuneInString(word)
	if strings.ContainsFunc(word, unicode.IsDigit) {
		return word
	}
	switch {
	case unicode.Is(unicode.Cyrillic, first):
		return cutEnding(word, russianEndings)
	case !unicode.Is(unicode.Latin, first):
		return word
	case l == Polish:
		return polishAlternations.Replace(cutEnding(word, polishEndings))
	}
	return stemEnglish(word)
}

func cutEnding(word string, endings []string) string {
	for _, ending := range endings {
		stem, ok := strings.CutSuffix(word, ending)
		if ok && utf8.RuneCountInString(stem) >= minStem {
			return stem
		}
	}
	return word
}

// stemEnglish is the "S" stemmer (Harman 1991): plurals only.
func stemEnglish(word string) string {
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
