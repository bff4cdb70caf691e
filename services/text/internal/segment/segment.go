// Package segment cuts text into words, sentences and paragraphs. It finds boundaries by Unicode
// UAX #29 (Unicode 17, by github.com/clipperhouse/uax29). The standard knows no language, so
// sentences are then repaired where it is known to be wrong: abbreviations ("Dr. Smith", "г.
// Москва", "m.in. Kraków"), initials, list numbers, hand-wrapped lines, and the ellipsis. All
// functions take time linear in the text. Start at Words and Sentences.
package segment

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/words"
)

// Word is one word-like UAX #29 segment: it holds a letter or a digit. Each Han character is a word of its
// own, as in UAX #29; package term joins them.
type Word struct {
	// Text is the word as written.
	Text string
	// Start is the byte offset of Text in the text given to Words.
	Start int
}

// End is the byte offset just after the word.
func (w Word) End() int { return w.Start + len(w.Text) }

// Words yields the words of text in order. It leaves out spaces, punctuation and symbols.
func Words(text string) iter.Seq[Word] {
	return func(yield func(Word) bool) {
		it := words.FromString(text)
		for it.Next() {
			if !HasWord(it.Value()) {
				continue
			}
			if !yield(Word{Text: it.Value(), Start: it.Start()}) {
				return
			}
		}
	}
}

// HasWord reports whether s holds at least one letter or digit.
func HasWord(s string) bool {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return true
		}
	}
	return false
}

// IsHan reports whether s starts with a Han character.
func IsHan(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r >= 0x2E80 && unicode.Is(unicode.Han, r)
}

// Paragraphs counts the paragraphs of text: blocks of lines with something visible in them, separated by
// blank lines or by U+2029.
func Paragraphs(text string) int {
	count, inside := 0, false
	for block := range strings.SplitSeq(text, "\u2029") {
		inside = false
		for line := range strings.Lines(block) {
			blank := strings.TrimSpace(line) == ""
			if !blank && !inside {
				count++
			}
			inside = !blank
		}
	}
	return count
}

// Cut shortens text to at most limit code points, the last of them an ellipsis "…" if something was left
// out. It cuts between words; a first word longer than the limit is cut between grapheme clusters. With a
// limit below 1 the result is empty.
func Cut(text string, limit int) string {
	if limit < 1 {
		return ""
	}
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	if end := lastFit(words.FromString(text), limit-1); end > 0 {
		if cut := trimCut(text[:end]); cut != "" {
			return cut + "…"
		}
	}
	return text[:lastFit(graphemes.FromString(text), limit-1)] + "…"
}

// boundaries is the common interface of the uax29 iterators.
type boundaries interface {
	Next() bool
	Value() string
	End() int
}

// lastFit returns the byte offset of the last boundary at most limit code points into the text.
func lastFit(it boundaries, limit int) int {
	end, used := 0, 0
	for it.Next() {
		used += utf8.RuneCountInString(it.Value())
		if used > limit {
			break
		}
		end = it.End()
	}
	return end
}

// trimCut drops characters that must not stand before an ellipsis: spaces, and punctuation that opens
// something or joins to the cut text.
func trimCut(s string) string {
	return strings.TrimRightFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Ps, unicode.Pi, unicode.Pd) || strings.ContainsRune(",;:.、，；：。", r)
	})
}
