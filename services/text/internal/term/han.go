package term

import (
	"context"
	"iter"

	"github.com/busbar-mcp/busbar/services/text/internal/han"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// piece is a word, or a run of Han characters without anything between them.
type piece struct {
	text string
	han  bool
}

// pieces yields the words and Han runs of text in order. A run longer than maxRun is cut; no real sentence
// is that long.
func pieces(text string) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		start, end := 0, 0 // the current Han run
		for w := range segment.Words(text) {
			isHan := segment.IsHan(w.Text)
			if end > start && (!isHan || w.Start != end || end-start > maxRun) {
				if !yield(piece{text[start:end], true}) {
					return
				}
				start, end = 0, 0
			}
			switch {
			case !isHan:
				if !yield(piece{w.Text, false}) {
					return
				}
			default:
				if end == start {
					start = w.Start
				}
				end = w.End()
			}
		}
		if end > start {
			yield(piece{text[start:end], true})
		}
	}
}

// maxRun is the longest run of Han characters, in bytes. It bounds the memory that cutting takes.
const maxRun = 4096

// learn collects the Han words that sentences repeat.
func learn(ctx context.Context, sentences []segment.Sentence) (map[string]int, error) {
	var runs []string
	for i, s := range sentences {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for p := range pieces(s.Text) {
			if p.han {
				runs = append(runs, p.text)
			}
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	return han.Learn(ctx, runs)
}
