package language

// What letters are worth, in function words.
const (
	// nameWeight is what a word counts that is written with a capital.
	nameWeight = 0.4
	// letterWeight is what one order of likelihood is worth.
	letterWeight = 0.4
	// certain is what the best fit is worth, and otherwise what a language is
	// whose letters are not counted.
	certain, otherwise = 0.8, -0.2
	// mostAgainst is the worst that letters can say.
	mostAgainst = 4.0
)

// kin are not counted and spelt much like a language that is.
var kin = map[Language]Language{"sk": "cs", "nb": "sv", "da": "sv"}

// letters is what three letters in a row say for a language, given how far each
// is behind the best.
func letters(behind map[string]float64, l Language) float64 {
	by, ok := behind[string(l)]
	if !ok {
		by, ok = behind[string(kin[l])]
	}
	if !ok {
		return otherwise
	}
	return certain - min(letterWeight*by, mostAgainst)
}
