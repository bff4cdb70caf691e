package contact

import (
	"context"
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

//go:embed data/calling_codes.txt
var callingCodeFile string

// callingCodes are the country calling codes of ITU-T E.164.
var callingCodes = sync.OnceValue(func() map[string]bool {
	codes := make(map[string]bool)
	for line := range strings.Lines(callingCodeFile) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for code := range strings.FieldsSeq(line) {
			codes[code] = true
		}
	}
	return codes
})

// Digits of an E.164 number, with its country code.
const (
	minDigits = 8
	maxDigits = 15
)

// Phones finds telephone numbers: international ones, "+" or "00" with a country code of E.164 and 8 to 15
// digits in total; and those written in a customary national form of the United States and Canada, Russia,
// Poland or China. The number need not be assigned to anyone.
func Phones(ctx context.Context, text string) ([]string, error) {
	found := newFinds()
	for i, n := 0, 0; i < len(text); n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start := strings.IndexAny(text[i:], "+(0123456789")
		if start < 0 {
			break
		}
		start += i
		end := phoneRun(text, start)
		i = max(end, start+1)
		if touches(text, start, end) {
			continue
		}
		if number := text[start:end]; plausible(number) {
			found.add(number)
		}
	}
	return found.list, nil
}

// phoneRun returns the end of the run of digits, separators and brackets at start; at most two separators
// stand between digits.
func phoneRun(text string, start int) int {
	end, gap := start, 0
	for i, r := range text[start:] {
		switch {
		case r >= '0' && r <= '9':
			end, gap = start+i+1, 0
			continue
		case r == '+' && i > 0:
			return end
		case strings.ContainsRune("+ -.()/\u00A0\u2011\u2010\u2013", r):
		default:
			return end
		}
		if gap++; gap > 2 && end > start {
			return end
		}
		if end == start && i > 2 {
			return start
		}
	}
	return end
}

// touches reports whether the run is part of something else: a word, a
// decimal, an amount or an identifier.
func touches(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return start > 0 && (!isWide(before) && unicode.IsLetter(before) || strings.ContainsRune("_=@#$€£/.-", before)) ||
		end < len(text) && (!isWide(after) && unicode.IsLetter(after) || strings.ContainsRune("_=@%€$", after))
}

// plausible reports whether s has the form of a telephone number.
func plausible(s string) bool {
	var digits strings.Builder
	shape := make([]byte, 0, 32) // digits as "d", any separator as itself
	open := 0
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits.WriteRune(r)
			shape = append(shape, 'd')
		case r == '(':
			open++
			shape = append(shape, '(')
		case r == ')':
			open--
			shape = append(shape, ')')
		case r < utf8.RuneSelf:
			shape = append(shape, byte(r))
		case r == '\u00A0':
			shape = append(shape, ' ')
		default:
			shape = append(shape, '-')
		}
		if open < 0 || open > 1 || len(shape) > 32 {
			return false
		}
	}
	d := digits.String()
	if open != 0 || len(d) > maxDigits+2 {
		return false
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "(+") {
		return international(d)
	}
	if strings.HasPrefix(d, "00") {
		return international(d[2:])
	}
	return national(d, string(shape))
}

func international(d string) bool {
	if len(d) < minDigits || len(d) > maxDigits {
		return false
	}
	codes := callingCodes()
	return codes[d[:1]] || codes[d[:2]] || codes[d[:3]]
}

// national recognises numbers without a country code by the grouping of their digits: without it, any
// other number would match.
func national(d, shape string) bool {
	shape = strings.ReplaceAll(shape, ".", "-")
	area := d[:min(1, len(d))]
	switch shape {
	case "(ddd) ddd-dddd", "(ddd)ddd-dddd", "ddd-ddd-dddd", "1-ddd-ddd-dddd", "d-ddd-ddd-dddd":
		d = strings.TrimPrefix(d, "1")
		return len(d) == 10 && d[0] >= '2' && d[3] >= '2'
	case "(ddd) ddd-dd-dd", "d (ddd) ddd-dd-dd", "d (ddd) ddd dd dd", "d(ddd)ddd-dd-dd", "d-ddd-ddd-dd-dd", "d ddd ddd-dd-dd", "d ddd ddd dd dd":
		return len(d) == 10 || area == "8"
	case "ddddddddddd":
		return strings.HasPrefix(d, "89") || d[0] == '1' && d[1] >= '3'
	case "ddd dddd dddd", "ddd-dddd-dddd":
		return d[0] == '1' && d[1] >= '3' || area == "0"
	case "dddd-ddddddd", "dddd-dddddddd", "ddd-dddddddd", "(ddd)dddddddd", "(ddd) dddddddd":
		return area == "0"
	case "ddd ddd ddd", "ddd-ddd-ddd":
		// Polish mobile numbers begin with these; a round amount is not a telephone number.
		return strings.Contains("45 50 51 53 57 60 66 69 72 73 78 79 88", d[:2]) && !strings.HasSuffix(d, "000")
	case "dd ddd dd dd", "(dd) ddd dd dd", "(dd) ddd-dd-dd", "dd-ddd-dd-dd":
		return d[0] >= '1' && d[1] >= '2'
	}
	return false
}
