package statistics

import (
	"context"
	"errors"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

func TestCount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text             string
		want                   Counts
		wordLength, sentLength float64
	}{
		{"empty", "", Counts{}, 0, 0},
		{"english", "One two. Three!", Counts{2, 3, 11}, 3.7, 1.5},
		{"russian", "Это пример текста для анализа. Он содержит несколько предложений.", Counts{2, 9, 55}, 6.1, 4.5},
		{"polish", "Zażółć gęślą jaźń.", Counts{1, 3, 15}, 5, 3},
		{"chinese", "這是標準。", Counts{1, 3, 4}, 1.3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Count(t.Context(), segment.Sentences(tt.text))
			if err != nil || got != tt.want || got.WordLength() != tt.wordLength || got.SentenceLength() != tt.sentLength {
				t.Errorf("got %+v, %v, %v, %v", got, got.WordLength(), got.SentenceLength(), err)
			}
		})
	}
}

func TestCountStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Count(ctx, segment.Sentences("One.")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
