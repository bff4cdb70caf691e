package words

import (
	"strings"
	"unicode/utf8"
)

// imperatives lists endings of infinitives and the matching imperative endings. For some verbs they yield
// forms that nobody writes, which does no harm.
var imperatives = map[Language][][]string{
	Russian: {{"овать", "уй", "уйте"}, {"ать", "ай", "айте"}, {"ять", "яй", "яйте"}, {"ить", "и", "ите", "ь", "ьте"}},
	Polish:  {{"ować", "uj", "ujcie"}, {"ać", "aj", "ajcie"}, {"ić", "", "cie"}},
}

// leastOrder is the shortest imperative, in runes.
const leastOrder = 4

// orders returns the imperatives of a verb in the infinitive, so that a list need not contain them; none
// for another word.
func orders(word string, l Language) (all []string) {
	for _, e := range imperatives[l] {
		stem, ok := strings.CutSuffix(word, e[0])
		if !ok {
			continue
		}
		for _, ending := range e[1:] {
			if utf8.RuneCountInString(stem+ending) >= leastOrder {
				all = append(all, stem+ending)
			}
		}
		break
	}
	return all
}
