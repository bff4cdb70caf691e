package language

import "strings"

var (
	polishEndings = strings.Fields(`
		ościami ościach ościom ością
		ości iami iach iego iemu owie
		ować ość owi iom iem iej imi ymi ego emu ych ich ami ach emy
		ać ić yć ów om em ej im ym iu ią ię ie ia
		a e i o u y ą ę`)
	// polishThemes are the remaining suffixes of verbs: "czytał", "pracuj-e".
	polishThemes = strings.Fields("owal owan uj al aj an")
	// polishKept only look like a case: "systemem" is a form of "system".
	polishKept = []string{"system", "problem"}
)

// polishLetters undoes the letter changes that endings cause: "protokół, protokołu", "żądań, żądanie",
// "błąd, błędu", "stół, stole".
var polishLetters = strings.NewReplacer("ó", "o", "ń", "n", "ź", "z", "ś", "s", "ć", "c", "ą", "ę", "ł", "l")

// polishSoft lists consonants changed before an ending, with that ending, and the original: "mieście" and
// "miasto", "drodze" and "droga". Longest first.
var polishSoft = [][2]string{{"ieście", "iast"}, {"ownicy", "ownik"}, {"dze", "g"}, {"rze", "r"}}

// stemPolish cuts endings by Polish rules. It drops fleeting vowels ("książek", "okien"). It does not
// handle vowels that change in more than their diacritic ("pies", "psa").
func stemPolish(word string) string {
	return polishLetters.Replace(fleeting(cutEnding(polishLetters.Replace(polishBase(word)), polishThemes)))
}

// polishBase cuts the ending off.
func polishBase(word string) string {
	for _, kept := range polishKept {
		if strings.HasSuffix(word, kept) {
			return word
		}
	}
	for _, soft := range polishSoft {
		if base, ok := strings.CutSuffix(word, soft[0]); ok && atLeast(base, 2) && atLeast(base+soft[1], minStem) {
			return base + soft[1]
		}
	}
	if base, ok := strings.CutSuffix(word, "ce"); ok && atLeast(base, minStem) && endsInConsonant(base) {
		return base + "k" // "matce" and "matka", but "ulice"
	}
	base := cutEnding(word, polishEndings)
	// An "i", or the diacritic, shows that "t" and "d" were softened:
	// "kocie" and "kot", "odpowiedzi, odpowiedź", "pamięcią, pamięć".
	if base != word && word[len(base)] == 'i' || strings.HasSuffix(base, "ć") || strings.HasSuffix(base, "dź") {
		for _, soft := range [][2]string{{"ść", "st"}, {"śc", "st"}, {"ć", "t"}, {"c", "t"}, {"dz", "d"}, {"dź", "d"}} {
			if hard, ok := strings.CutSuffix(base, soft[0]); ok && atLeast(hard, 2) {
				return hard + soft[1]
			}
		}
	}
	return base
}

// fleeting drops the "e" before a last consonant that appears only if no ending follows.
func fleeting(stem string) string {
	if !atLeast(stem, 5) {
		return stem
	}
	for _, f := range [][2]string{{"iek", "k"}, {"ek", "k"}, {"ien", "n"}, {"iec", "c"}} {
		if base, ok := strings.CutSuffix(stem, f[0]); ok && endsInConsonant(base) {
			return base + f[1]
		}
	}
	return stem
}

// nameEndings lists the endings of names in Polish, and the letters they replace.
var nameEndings = [][2]string{
	{"owie", ""}, {"owi", ""}, {"ami", ""}, {"ami", "a"}, {"ach", ""}, {"ach", "a"}, {"iem", ""}, {"em", ""}, {"em", "e"}, {"ów", ""}, {"om", ""}, {"om", "a"},
	{"rze", "r"}, {"rze", "ra"}, {"dzie", "d"}, {"dzie", "da"}, {"cie", "t"}, {"ście", "st"}, {"cie", "ta"}, {"le", "l"}, {"le", "la"}, {"ce", "ka"}, {"dze", "ga"}, {"ie", ""}, {"ie", "a"},
	{"a", ""}, {"u", ""}, {"y", "a"}, {"i", "a"}, {"y", ""}, {"i", ""}, {"ę", "a"}, {"ą", "a"}, {"o", "a"}, {"e", ""},
}

// PolishNames returns the names that a folded word may be an inflected form of: "dockera" of "docker",
// "javie" of "java", "linuksem" of "linux".
func PolishNames(word string) []string {
	var names []string
	for _, e := range nameEndings {
		stem, ok := strings.CutSuffix(word, e[0])
		if stem = strings.TrimRight(stem, "'’"); !ok || !atLeast(stem, 2) {
			continue
		}
		names = append(names, stem+e[1])
		if x, ok := strings.CutSuffix(stem, "ks"); ok {
			names = append(names, x+"x"+e[1])
		}
	}
	return names
}

// IsPolishInfinitive reports whether a word ends like a Polish infinitive.
func IsPolishInfinitive(word string) bool {
	for _, e := range []string{"ać", "ić", "yć", "eć", "ować"} {
		if stem, ok := strings.CutSuffix(word, e); ok && atLeast(stem, minStem) {
			return !strings.HasSuffix(word, "ieć") && word != "pamięć"
		}
	}
	return false
}
