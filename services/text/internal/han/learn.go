package han

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
)

// Lengths, in characters, of the strings learnt from a text.
const (
	minLearnt = 2
	maxLearnt = 4
)

// checkEvery is the number of runs between two checks of the context.
const checkEvery = 1024

// Learn collects words that a text repeats and the dictionary lacks, such as names: strings of 2 to 4
// characters that occur at least twice, are not merely part of a longer one with the same count, and
// contain a character that is not a word by itself. The result is for Cut.
func Learn(ctx context.Context, runs []string) (map[string]int, error) {
	var parts []string
	for i, run := range runs {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		parts = split(parts, run)
	}
	learnt := make(map[string]int)
	var shorter map[string]int
	for n := minLearnt; n <= maxLearnt && len(parts) > 0; n++ {
		grams := make(map[string]int)
		for i, part := range parts {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			countGrams(grams, shorter, part, n)
		}
		for gram, count := range grams {
			if count < 2 {
				delete(grams, gram)
				continue
			}
			learnt[gram] = count
			if n > minLearnt {
				head, tail := ends(gram)
				for _, part := range []string{head, tail} {
					if learnt[part] == count {
						delete(learnt, part)
					}
				}
			}
		}
		shorter = grams
	}
	d := known()
	for gram := range learnt {
		if !d.strange(gram) {
			delete(learnt, gram)
		}
	}
	return learnt, nil
}

// split appends the parts of run between function characters, such as 的 or 是, and numerals. It skips
// single characters: they teach nothing.
func split(parts []string, run string) []string {
	start := 0
	add := func(end int) {
		if end-start > utf8.UTFMax {
			parts = append(parts, run[start:end])
		}
	}
	for i, r := range run {
		if n := utf8.RuneLen(r); counts(r) || language.IsStopword(run[i:i+n], language.Chinese) {
			add(i)
			start = i + n
		}
	}
	add(len(run))
	return parts
}

// counts reports whether r is a numeral, or a word in a numeral's place.
func counts(r rune) bool {
	return strings.ContainsRune("一二三四五六七八九十百千万两几这那每某第這兩幾萬", r)
}

// strange reports whether the dictionary cuts gram into single characters of which it lacks at least one.
func (d *dictionary) strange(gram string) bool {
	words := Cut(gram, nil)
	if len(words) != utf8.RuneCountInString(gram) {
		return false
	}
	for _, w := range words {
		if _, ok := d.cost[d.simplify(w)]; !ok {
			return true
		}
	}
	return false
}

// countGrams counts the n-grams of run. A string repeats only if its parts do, so it skips an n-gram if a
// part is missing from shorter.
func countGrams(grams, shorter map[string]int, run string, n int) {
	var starts [maxLearnt + 1]int // byte offsets of the last n+1 characters
	seen := 0
	count := func(end int) {
		if seen < n {
			return
		}
		gram := run[starts[(seen-n)%len(starts)]:end]
		if n > minLearnt {
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
