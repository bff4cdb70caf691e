package term

import (
	"context"
	"iter"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Lengths, in characters, of the Han strings taken for words.
const (
	minGram = 2
	maxGram = 4
)

// piece is a word, or a run of Han characters without anything between them
// and without function characters such as 的 or 是.
type piece struct {
	text string
	han  bool
}

// pieces yields the words and Han runs of text in order.
func pieces(text string) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		start, end := 0, 0 // the Han run under way
		for w := range segment.Words(text) {
			han := segment.IsHan(w.Text)
			breaks := !han || language.IsStopword(w.Text, language.Chinese)
			if end > start && (breaks || w.Start != end) {
				if !yield(piece{text[start:end], true}) {
					return
				}
				start, end = 0, 0
			}
			switch {
			case !han:
				if !yield(piece{w.Text, false}) {
					return
				}
			case !breaks:
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

// vocabulary is the set of Han strings taken for words of one text: those of
// 2 to 4 characters that occur at least twice and are not merely part of a
// longer one occurring as often. It stands in for a dictionary.
type vocabulary map[string]int

// learn gathers the vocabulary of sentences.
func learn(ctx context.Context, sentences []segment.Sentence) (vocabulary, error) {
	var runs []string
	for i, s := range sentences {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for p := range pieces(s.Text) {
			if p.han && len(p.text) > 3 { // one character has no n-grams
				runs = append(runs, p.text)
			}
		}
	}
	vocab := make(vocabulary)
	if len(runs) == 0 {
		return vocab, nil
	}
	var shorter map[string]int
	for n := minGram; n <= maxGram; n++ {
		grams := make(map[string]int)
		for i, run := range runs {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			countGrams(grams, shorter, run, n)
		}
		for gram, count := range grams {
			if count < 2 {
				delete(grams, gram)
				continue
			}
			vocab[gram] = count
			if n > minGram {
				head, tail := ends(gram)
				for _, part := range []string{head, tail} {
					if vocab[part] == count {
						delete(vocab, part)
					}
				}
			}
		}
		shorter = grams
	}
	return vocab, nil
}

// countGrams counts the n-grams of run. A string repeats only if its parts
// do, so that those with a part missing from shorter are not counted.
func countGrams(grams, shorter map[string]int, run string, n int) {
	var starts [maxGram + 1]int // byte offsets of the last n+1 characters
	seen := 0
	count := func(end int) {
		if seen < n {
			return
		}
		gram := run[starts[(seen-n)%len(starts)]:end]
		if n > minGram {
			head, tail := ends(gram)
			if shorter[head] == 0 || shorter[tail] == 0 {
				return
			}
		}
		grams[gram]++
	}
	for i := range run {
		count(i)
		starts[seen%len(starts)] = i
		seen++
	}
	count(len(run))
}

// ends returns gram without its last and without its first character.
func ends(gram string) (head, tail string) {
	_, last := utf8.DecodeLastRuneInString(gram)
	_, first := utf8.DecodeRuneInString(gram)
	return gram[:len(gram)-last], gram[first:]
}

// cut splits a Han run into words: from the left the longest known one; what
// lies between, in pairs, with three at the end where the number is odd.
func (v vocabulary) cut(run string) []string {
	var words []string
	unknown := 0 // start of what no known word covers
	for i := 0; i < len(run); {
		word := v.longest(run[i:])
		if word == "" {
			_, n := utf8.DecodeRuneInString(run[i:])
			i += n
			continue
		}
		words = pairs(words, run[unknown:i])
		words = append(words, word)
		i += len(word)
		unknown = i
	}
	return pairs(words, run[unknown:])
}

// longest is the longest known word, or stop word, that s starts with.
func (v vocabulary) longest(s string) string {
	best, n := "", 0
	for i := range s {
		if n >= minGram && v.knows(s[:i]) {
			best = s[:i]
		}
		if n == maxGram {
			return best
		}
		n++
	}
	if n >= minGram && n <= maxGram && v.knows(s) {
		best = s
	}
	return best
}

func (v vocabulary) knows(s string) bool {
	return v[s] > 0 || language.IsStopword(s, language.Chinese)
}

// pairs appends s to words, two characters at a time.
func pairs(words []string, s string) []string {
	for left := utf8.RuneCountInString(s); left > 0; {
		n := minGram
		if left <= minGram+1 {
			n = left
		}
		end := 0
		for range n {
			_, size := utf8.DecodeRuneInString(s[end:])
			end += size
		}
		words = append(words, s[:end])
		s = s[end:]
		left -= n
	}
	return words
}
