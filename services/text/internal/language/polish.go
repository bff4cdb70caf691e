package language

import "strings"

var (
	polishEndings = strings.Fields(`
		ościami ościach ościom ością
		ości iami iach iego iemu owie
		ować ość owi iom iem iej imi ymi ego emu ych ich ami ach emy
		ać ić yć ów om em ej im ym iu ią ię ie ia
		a e i o u y ą ę`)
	// polishThemes are what is left of verbs: "czytał", "pracuj-e".
	polishThemes = strings.Fields("owal owan uj al aj an")
	// polishKept end like a case and are none: "systemem" is of "system".
	polishKept = []string{"system", "problem"}
)

// polishLetters undoes the changes of letters that endings bring about:
// "protokół, protokołu", "żądań, żądanie", "błąd, błędu", "stół, stole".
var polishLetters = strings.NewReplacer("ó", "o", "ń", "n", "ź", "z", "ś", "s", "ć", "c", "ą", "ę", "ł", "l")

// polishSoft are consonants that changed before an ending, with the ending,
// and what they were: "mieście" and "miasto", "drodze" and "droga". Longest
// first.
var polishSoft = [][2]string{{"ieście", "iast"}, {"ownicy", "ownik"}, {"dze", "g"}, {"rze", "r"}}

// stemPolish cuts endings after Polish rules. Fleeting vowels ("książek",
// "okien") are dropped; vowels that change more than their mark are not
// followed ("pies", "psa").
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
	// An "i", or the mark on the letter, says that "t" and "d" went soft:
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

// fleeting drops the "e" that stands before a last consonant only where no
// ending follows.
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
