package language

import (
	"slices"
	"strings"
)

// verbal lists endings that are typical of verbs, participles and adverbs, but rare in nouns.
var verbal = map[Language][]string{
	English: {"ed", "ly", "ized", "ised", "ated", "izes", "ates"},
	Polish: {"ować", "iwać", "ywać", "ał", "ała", "ało", "ali", "ały", "ił", "iła", "iło", "ili", "iły", "ył", "yła", "yli", "liśmy", "łyśmy", "łem", "łam", "nęli", "ął", "ęła", "ęli", "iał", "iała", "ieli",
		"uje", "ują", "ujemy", "ajmy", "emy", "imy", "cie", "ąc", "ący", "ąca", "ące", "ących", "ącym", "ącymi", "wszy", "ano", "ono", "ać", "eć", "nąć"},
	Russian: {"ать", "ять", "ить", "еть", "уть", "ться", "тся", "ал", "ала", "ало", "али", "ил", "ила", "ило", "или", "ел", "ела", "ели", "ет", "ют", "ут", "ят", "ит", "ешь", "ишь",
		"лся", "лась", "лись", "ющий", "ющая", "ющие", "ющих", "ющими", "ющим", "ющего", "вший", "вшие", "нный", "нная", "нные", "нных", "нными"},
}

// IsVerbal reports whether a folded word looks like a verb, a participle or an
// adverb.
func IsVerbal(word string, l Language) bool {
	return slices.ContainsFunc(verbal[l], func(e string) bool {
		stem, ok := strings.CutSuffix(word, e)
		return ok && atLeast(stem, minStem)
	})
}
