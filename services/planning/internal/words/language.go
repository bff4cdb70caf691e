package words

import (
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/libs/trigram"
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

// Languages are the languages of plans.
var Languages = []Language{English, Polish, Russian, Chinese}

// sample is how many bytes Detect reads; more would not change the outcome.
const sample = 16 << 10

// Detect determines the language of text: by its script, and English or Polish by letters and words. sure
// is false without evidence, or if there is more evidence for a language without plans; the answer then is
// English.
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
	// Names in Latin letters occur in every language, so other scripts need only a part
	// of the text. One Han character counts as three letters.
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
	english, polish := float64(stops(English, text)), float64(stops(Polish, text)+2*polishLetters)
	behind := byLetters(text)
	other := false
	for language, by := range behind {
		other = other || by == 0 && language != string(English) && language != string(Polish)
	}
	english -= min(behind[string(English)]*letterWeight, mostAgainst)
	polish -= min(behind[string(Polish)]*letterWeight, mostAgainst)
	switch {
	case other && max(english, polish) < 1:
		return English, false
	case polish > english:
		return Polish, true
	}
	return English, english > 0 || behind[string(English)] == 0 && behind != nil
}

// Reading returns the language in which to read text if its plan is wanted in the given language: the
// text's own, if more of its words are known in it.
func Reading(text string, wanted Language) Language {
	if own, sure := Detect(text); sure && own != wanted && stops(own, text) > stops(wanted, text) {
		return own
	}
	return wanted
}

// Weights of letter sequences, in function words.
const (
	letterWeight = 0.4
	mostAgainst  = 4.0
	// fewLetters is how many words are examined; longer texts have function words.
	fewLetters = 40
)

// byLetters returns how far each language is behind the best match of letter sequences.
func byLetters(text string) map[string]float64 {
	var t trigram.Tally
	n := 0
	for _, token := range Cut(text) {
		if token.Kind != Word || strings.ContainsAny(token.Text, "0123456789_") {
			continue
		}
		t.Add(token.Text, 1)
		if n++; n == fewLetters {
			break
		}
	}
	return t.Behind()
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
