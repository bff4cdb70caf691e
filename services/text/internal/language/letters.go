package language

// Weights of letters, in function words.
const (
	// nameWeight is the weight of a word with a capital.
	nameWeight = 0.4
	// letterWeight is the weight of one order of likelihood.
	letterWeight = 0.4
	// certain is the weight of the best fit; otherwise is the weight of a language without letter
	// statistics.
	certain, otherwise = 0.8, -0.2
	// mostAgainst bounds how much letters can count against a language.
	mostAgainst = 4.0
)

// kin maps languages without letter statistics to a similarly spelt one that has them.
var kin = map[Language]Language{"sk": "cs", "nb": "sv", "da": "sv"}

// letters returns the weight that sequences of three letters give a language, from each language's
// distance to the best.
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
