// Package summary picks the sentences of a text that stand for the rest.
//
// Summaries are extractive: sentences are scored by how central they are and
// the best that fit are given in their original order, unchanged. Up to 200
// sentences are compared with one another (LexRank, Erkan and Radev 2004, on
// cosines of tf-idf vectors); longer texts are scored by likeness to their
// centroid, which takes linear time.
package summary

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

const (
	// likeness of two sentences above which the second adds nothing.
	likeness = 0.7
	// aside is the share of the best score below which a sentence is beside
	// the point, and left out even where it fits.
	aside = 0.3
	// fragment is the share of its score that a piece keeps which does not end
	// like a sentence: headings, table rows. Fenced code keeps its square.
	fragment = 0.2
)

// Summarize returns at most limit code points of text: whole sentences, or if
// not one sentence with words fits, the best one cut between words with "…".
// A text within the limit is its own summary. White space within a sentence
// is collapsed. The sentences and terms are those of text.
func Summarize(ctx context.Context, text string, sentences []segment.Sentence, terms []term.Term, limit int) (string, error) {
	if whole := collapse(text); utf8.RuneCountInString(whole) <= limit {
		return whole, nil
	}
	if len(sentences) == 0 {
		return segment.Cut(collapse(text), limit), nil
	}
	v := vectors(len(sentences), terms)
	score, err := v.score(ctx)
	if err != nil {
		return "", err
	}
	order := make([]int, len(sentences))
	code := inCode(text, sentences)
	for i := range order {
		order[i] = i
		if code[i] {
			score[i] *= fragment * fragment
		} else if !finished(sentences[i].Text) {
			score[i] *= fragment
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	chosen := choose(v, order, score, sentences, limit)
	if len(chosen) == 0 {
		return segment.Cut(collapse(sentences[order[0]].Text), limit), nil
	}
	slices.Sort(chosen)
	var b strings.Builder
	for _, i := range chosen {
		s := collapse(sentences[i].Text)
		if b.Len() > 0 && spaced(b.String(), s) {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// choose takes sentences, best first, as long as they fit and say something
// the ones before did not.
func choose(v *space, order []int, score []float64, sentences []segment.Sentence, limit int) []int {
	var chosen []int
	seen := make(map[string]bool)
	left := limit
	for _, i := range order {
		s := sentences[i].Text
		if left <= 0 || score[i] < aside*score[order[0]] {
			break
		}
		s = collapse(s)
		need := utf8.RuneCountInString(s)
		if len(chosen) > 0 {
			need++ // the space between; Chinese goes without and leaves one spare
		}
		if need > left || seen[s] || v.repeats(i, chosen) {
			continue
		}
		seen[s] = true
		chosen = append(chosen, i)
		left -= need
	}
	return chosen
}

// finished reports whether s ends like a sentence, quoted or not.
func finished(s string) bool {
	s = strings.TrimRightFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.Pe, unicode.Pf) || strings.ContainsRune("\"'*_`", r)
	})
	last, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(".!?…。！？｡", last)
}

// spaced reports whether a space belongs between two sentences.
func spaced(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	return !(wide(last) || segment.IsHan(after))
}

// wide reports whether r belongs to a script, or is punctuation, written
// without spaces.
func wide(r rune) bool {
	return r >= 0x3000 && r <= 0x30FF || r >= 0xFF00 && r <= 0xFF60 || r >= 0x2E80 && unicode.Is(unicode.Han, r)
}

// collapse makes white space single spaces; between two wide characters, where
// it can only be a line break, it goes.
func collapse(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var last rune
	for i, field := range splitSpace(s) {
		first, _ := utf8.DecodeRuneInString(field)
		if i > 0 && !(wide(last) && wide(first)) {
			b.WriteByte(' ')
		}
		b.WriteString(field)
		last, _ = utf8.DecodeLastRuneInString(field)
	}
	return b.String()
}

// splitSpace numbers the pieces of s between white space.
func splitSpace(s string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		i := 0
		for field := range strings.FieldsFuncSeq(s, unicode.IsSpace) {
			if !yield(i, field) {
				return
			}
			i++
		}
	}
}
