// Package statistics counts the sentences and words of a text, and their average lengths. Start at Count.
package statistics

import (
	"context"
	"math"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

// Counts measures a text.
type Counts struct {
	// Sentences are counted by package segment, Words by package term: a word has a letter or a
	// digit, and Chinese is cut into words.
	Sentences, Words int
	// WordCharacters is the length of all words in code points.
	WordCharacters int
}

// Count measures the text of sentences.
func Count(ctx context.Context, sentences []segment.Sentence) (Counts, error) {
	words, err := term.Words(ctx, sentences)
	if err != nil {
		return Counts{}, err
	}
	c := Counts{Sentences: len(sentences), Words: len(words)}
	for _, w := range words {
		c.WordCharacters += utf8.RuneCountInString(w)
	}
	return c, nil
}

// WordLength returns the average length of words in code points, to one decimal; 0 without words.
func (c Counts) WordLength() float64 { return ratio(c.WordCharacters, c.Words) }

// SentenceLength returns the average length of sentences in words, to one decimal; 0 without sentences.
func (c Counts) SentenceLength() float64 { return ratio(c.Words, c.Sentences) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*10) / 10
}
