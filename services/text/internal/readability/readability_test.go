package readability

import (
	"context"
	"errors"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

func TestRate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		l          language.Language
		want       Rating
	}{
		// 6 words, 1 sentence, 6 syllables: 206.835 - 6.09 - 84.6.
		{"english", "The cat sat on the mat.", language.English, Rating{116.1, "flesch-reading-ease", "very easy", "en"}},
		// 5+4+6 words in 3 sentences, 11+11+16 syllables: 206.835 - 6.5 - 152.25.
		{"russian seed", "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста.", language.Russian, Rating{48.1, "flesch-reading-ease-oborneva", "difficult", "ru"}},
		// 5 words, one of them of 4 syllables: 5/3 + 20/3 + 1.
		{"polish", "Analizuje tekst i zwraca dane.", language.Polish, Rating{9.3, "pisarek-linear", "medium", "pl"}},
		{"chinese", "這是一個標準。很簡單。", language.Chinese, Rating{4.5, "characters-per-sentence", "very easy", "zh"}},
		// 4 words, one of over six letters: 4 + 25.
		{"other", "Der Fuchs springt weiter.", language.Unknown, Rating{29, "lix", "very easy", "und"}},
		{"no words", "!!!", language.Unknown, Rating{0, "lix", "very easy", "und"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Rate(t.Context(), segment.Sentences(tt.text), tt.l)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestSyllables(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word string
		l    language.Language
		want int
	}{
		{"time", language.English, 1}, {"table", language.English, 2}, {"wanted", language.English, 2},
		{"played", language.English, 1}, {"readability", language.English, 5}, {"nth", language.English, 1},
		{"wiązanie", language.Polish, 3}, {"komunikacja", language.Polish, 5}, {"nie", language.Polish, 1}, {"w", language.Polish, 1},
		{"молоко", language.Russian, 3}, {"анализа", language.Russian, 4}, {"в", language.Russian, 1},
		{"2024", language.English, 1}, {"Straße", language.Unknown, 2},
	}
	for _, tt := range tests {
		if got := Syllables(tt.word, tt.l); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.word, got, tt.want)
		}
	}
}

func TestRateStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rate(ctx, segment.Sentences("One."), language.English); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
