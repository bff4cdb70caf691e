package trigram

import (
	"strings"
	"testing"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nowa wersja strony": "pl", "unit tests": "en", "bestellung prüfen": "de", "informe para la dirección": "es",
		"objednávka zboží": "cs", "nouvelle version": "fr", "xqzt vwxq": "",
	} {
		var tally Tally
		for word := range strings.FieldsSeq(text) {
			tally.Add(word, 1)
		}
		behind := tally.Behind()
		if want == "" {
			if behind != nil {
				t.Errorf("%s fits a language", text)
			}
			continue
		}
		for language, by := range behind {
			if (by == 0) != (language == want) {
				t.Errorf("%s: %s is %.1f behind", text, language, by)
			}
		}
	}
	if (&Tally{}).Behind() != nil {
		t.Error("nothing fits a language")
	}
}

func FuzzAdd(f *testing.F) {
	f.Add("słowo")
	f.Fuzz(func(t *testing.T, word string) {
		var tally Tally
		tally.Add(word, 1)
		for language, by := range tally.Behind() {
			if by < 0 {
				t.Errorf("%s is before the best", language)
			}
		}
	})
}
