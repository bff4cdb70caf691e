package words

import (
	"strings"
	"unicode"
)

// Language is an ISO 639-1 code.
type Language string

// The languages known.
const (
	English Language = "en"
	Polish  Language = "pl"
	Russian Language = "ru"
	Chinese Language = "zh"
)

// Languages are those a plan can be written in.
var Languages = []Language{English, Polish, Russian, Chinese}

// sample is how many bytes Detect reads: more does not change the outcome.
const sample = 16 << 10

// Detect tells the language of text by its script, and English from Polish by
// letters and function words. sure is false when nothing spoke for the answer,
// which then is English.
func Detect(text string) (l Language, sure bool) {
	if len(text) > sample {
		text = strings.ToValidUTF8(text[:sample], "")
	}
	var latin, cyrillic, hanRunes, polishLetters, foreign int
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Cyrillic, r):
			cyrillic++
		case isHan(r):
			hanRunes++
		case unicode.Is(unicode.Latin, r):
			latin++
			if strings.ContainsRune("ąćęłńśźżĄĆĘŁŃŚŹŻ", r) {
				polishLetters++
			}
		case unicode.IsLetter(r):
			foreign++
		}
	}
	// Names in Latin letters are at home in every language: other scripts
	// need only a part of the text. One Han character stands for some three letters.
	letters := latin + cyrillic + 3*hanRunes + foreign
	switch {
	case letters == 0:
		return English, false
	case hanRunes > 0 && 3*hanRunes*4 >= letters && 3*hanRunes >= cyrillic:
		return Chinese, true
	case cyrillic*6 >= letters:
		return Russian, true
	case foreign*2 > letters:
		return English, false
	}
	english, polish := stops(English, text), stops(Polish, text)+2*polishLetters
	if polish > english {
		return Polish, true
	}
	return English, english > 0
}

// stops counts function words, and verbs that tasks begin with.
func stops(l Language, text string) int {
	n := 0
	for _, h := range For(l).Find(Cut(text)) {
		if h.Class == "stop" || h.Class == "act" {
			n += h.To - h.From
		}
	}
	return n
}
