package file

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// literal is a text to search for. Searching takes time in proportion to the searched text, whatever the
// literal is.
type literal struct {
	text []byte
	// fold: upper and lower case are equal.
	fold bool
}

func newLiteral(text string, fold bool) literal {
	l := literal{fold: fold}
	l.text = l.prepare([]byte(text), nil)
	return l
}

// prepare returns text in the form that index searches. With fold, each character becomes the least of
// those that differ from it only in case. The result may reuse the memory of into.
func (l literal) prepare(text, into []byte) []byte {
	if !l.fold {
		return text
	}
	// A folded character is never longer than the original.
	folded := slices.Grow(into[:0], len(text))[:len(text)]
	n := 0
	for len(text) > 0 {
		ascii := 0
		for out := folded[n:]; ascii < len(text) && ascii < len(out) && text[ascii] < utf8.RuneSelf; ascii++ {
			out[ascii] = lower[text[ascii]]
		}
		n, text = n+ascii, text[ascii:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			folded[n] = text[0]
			n++
		} else {
			n += utf8.EncodeRune(folded[n:], foldRune(r))
		}
		text = text[size:]
	}
	return folded[:n]
}

// lower folds ASCII.
var lower = func() (all [256]byte) {
	for c := range utf8.RuneSelf {
		all[c] = byte(foldRune(rune(c)))
	}
	return all
}()

// foldRune returns one character for all that differ only in case: the least, in lower case if that is
// ASCII.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// index returns the offset of the literal in a prepared text, -1 if it is not there. An empty literal is
// everywhere.
func (l literal) index(prepared []byte) int { return bytes.Index(prepared, l.text) }

// unfolded returns the offset in line that belongs to an offset in its folded form.
func unfolded(line string, at int) int {
	for i, r := range line {
		if at <= 0 {
			return i
		}
		at -= utf8.RuneLen(foldRune(r))
	}
	return len(line)
}

// requires returns the longest text that every match of an expression contains.
func requires(e *syntax.Regexp) (best literal) {
	switch e.Op {
	case syntax.OpLiteral:
		return newLiteral(string(e.Rune), e.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		return requires(e.Sub[0])
	case syntax.OpRepeat:
		if e.Min > 0 {
			return requires(e.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			if l := requires(sub); len(l.text) > len(best.text) {
				best = l
			}
		}
	}
	return best
}
