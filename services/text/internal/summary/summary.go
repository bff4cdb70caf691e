// Package summary picks the sentences of a text that best stand for the whole. Summaries are extractive:
// sentences are scored by how central they are, and the best that fit are returned unchanged in their
// original order. Up to 200 sentences are compared with one another (LexRank, Erkan and Radev 2004, on
// cosines of tf-idf vectors); longer texts are scored by likeness to their centroid, which takes linear
// time. Start at Summarize.
package summary

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

const (
	// likeness is the cosine above which the second of two sentences adds nothing.
	likeness = 0.7
	// aside is the share of the best score below which a sentence is beside
	// the point and left out, even if it fits.
	aside = 0.3
	// remote is the same for a sentence that announces a change.
	remote = 0.08
	// fragment is the factor for a piece that does not end like a sentence:
	// headings, table rows. For fenced code it is squared.
	fragment = 0.2
	// filler is the share of the best score that some sentence of a summary must reach.
	filler = 0.5
	// item is the factor for an item of a list, torn for a sentence with
	// only half of a piece of code.
	item, torn = 0.6, 0.3
	// lead favours early sentences, the opening one most.
	lead = 0.4
	// hanLead is for Chinese: its short sentences share few words, so centrality
	// says less. See level.
	hanLead = 2.0
)

// Summarize returns at most limit code points of text: whole sentences, or, if not one sentence with words
// fits, the best one, cut between words with "…". A text within the limit is its own summary. White space
// within a sentence is collapsed. The caller gives the sentences and terms of text.
func Summarize(ctx context.Context, text string, sentences []segment.Sentence, terms []term.Term, limit int) (string, error) {
	whole := collapse(text)
	limit = shareOf(whole, limit, len(sentences))
	if utf8.RuneCountInString(whole) <= limit {
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
	early := lead
	if mostlyHan(whole) {
		early = hanLead
		level(score)
	}
	order := make([]int, len(sentences))
	code := inCode(text, sentences)
	for i := range order {
		order[i] = i
		score[i] *= cue(sentences[i].Text) * (1 + early/math.Pow(float64(1+i), 1.5))
		if isItem(text, sentences[i].Start) {
			score[i] *= item
		}
		if strings.Count(sentences[i].Text, "`")%2 == 1 {
			score[i] *= torn
		}
		if code[i] {
			score[i] *= fragment * fragment
		} else if !finished(sentences[i].Text) {
			score[i] *= fragment
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	chosen := choose(v, order, score, sentences, limit)
	// The beginning of the best sentence says more than a filler that happens to fit.
	if len(chosen) == 0 || score[slices.MaxFunc(chosen, func(a, b int) int { return cmp.Compare(score[a], score[b]) })] < filler*score[order[0]] {
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

// hanWhole is the number of code points up to which a Chinese text may be kept whole. One Chinese
// character says as much as three letters, so a summary of a longer text has at most half of it.
const hanWhole = 60

// shareOf returns the number of code points that a summary of text may have if the caller
// allows limit.
func shareOf(text string, limit, sentences int) int {
	const few = 2
	n := utf8.RuneCountInString(text)
	if n <= hanWhole || sentences <= few || !mostlyHan(text) {
		return limit
	}
	return min(limit, max(n/2, hanWhole))
}

// mostlyHan reports whether at least half of text is Chinese characters.
func mostlyHan(text string) bool {
	n, han := 0, 0
	for _, r := range text {
		n++
		if wide(r) {
			han++
		}
	}
	return han*2 >= n
}

// level moves scores nearer to their mean.
func level(score []float64) {
	mean := 0.0
	for _, s := range score {
		mean += s / float64(len(score))
	}
	for i := range score {
		score[i] = (score[i] + mean) / 2
	}
}

// isItem reports whether the sentence at offset start is an item of a list, or begins with the number of
// one.
func isItem(text string, start int) bool {
	line := text[strings.LastIndexByte(text[:start], '\n')+1 : start]
	if strings.TrimRight(strings.TrimLeft(line, " \t>"), " \t") != "" {
		return strings.ContainsAny(strings.TrimSpace(line)[:1], "-*+•")
	}
	rest := strings.TrimLeft(text[start:min(len(text), start+8)], "0123456789")
	return len(rest) > 1 && rest != text[start:min(len(text), start+8)] && (rest[0] == '.' || rest[0] == ')') && rest[1] == ' '
}

// choose takes sentences, best first, that fit and do not repeat a chosen one.
func choose(v *space, order []int, score []float64, sentences []segment.Sentence, limit int) []int {
	var chosen []int
	seen := make(map[string]bool)
	left := limit
	for _, i := range order {
		s := sentences[i].Text
		if len(chosen) > 0 && finished(sentences[chosen[0]].Text) && !finished(s) {
			continue
		}
		if left <= 0 || score[i] < remote*score[order[0]] {
			break
		}
		if score[i] < aside*score[order[0]] && !changes(s) {
			continue
		}
		s = collapse(s)
		need := utf8.RuneCountInString(s)
		if len(chosen) > 0 {
			need++ // the space between; Chinese needs none, which leaves one spare
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

// wide reports whether r is a letter or mark of a script that is written without spaces.
func wide(r rune) bool {
	return r >= 0x3000 && r <= 0x30FF || r >= 0xFF00 && r <= 0xFF60 || r >= 0x2E80 && unicode.Is(unicode.Han, r)
}

// collapse turns runs of white space into single spaces. Between two wide characters it can only be a line
// break and is dropped.
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
