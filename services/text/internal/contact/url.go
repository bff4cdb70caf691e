package contact

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxScheme = 32   // characters; the longest registered ones are shorter
	maxURL    = 2048 // bytes; longer URLs are cut here
)

// URLs finds absolute URLs "scheme://…" of any scheme, and "www.…" names. A URL ends before white space,
// quotes, angle brackets, Han and kana. Closing brackets without their opening one, and punctuation at its
// end, belong to the sentence around it.
func URLs(ctx context.Context, text string) ([]string, error) {
	return gather(ctx, text, urls(text))
}

// urls yields the position of each URL in text, and an empty place for a candidate that is not a URL.
func urls(text string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from := 0; ; {
			start, next := nextURL(text, from)
			if start < 0 {
				return
			}
			from = next
			u := trimURL(urlRun(text[start:]))
			if !validURL(u) {
				u = ""
			} else {
				from = start + len(u)
			}
			if !yield(start, start+len(u)) {
				return
			}
		}
	}
}

// nextURL returns the start of the next possible URL at or after from, and the position to continue at if
// it is not one.
func nextURL(text string, from int) (start, next int) {
	for at := from; ; at++ {
		i := strings.IndexAny(text[at:], ":wW")
		if i < 0 {
			return -1, len(text)
		}
		at += i
		rest := text[at:]
		if strings.HasPrefix(rest, "://") {
			if s := schemeStart(text, from, at); s < at {
				return s, at + 3
			}
		} else if len(rest) > 4 && strings.EqualFold(rest[:4], "www.") && opensWord(text, at) {
			return at, at + 4
		}
	}
}

// opensWord reports whether text[at] does not continue a name or a path.
func opensWord(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	return at == 0 || !isLabel(before) && !strings.ContainsRune("@./-_", before)
}

// schemeStart returns the start of the scheme before text[colon], or colon.
func schemeStart(text string, floor, colon int) int {
	start := colon
	for start > floor && colon-start < maxScheme {
		c := text[start-1]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.' {
			start--
			continue
		}
		break
	}
	for start < colon { // a scheme begins with a letter
		if c := text[start] | 0x20; c >= 'a' && c <= 'z' {
			break
		}
		start++
	}
	return start
}

// urlRun returns the longest run of URL characters that s starts with.
func urlRun(s string) string {
	for i, r := range s {
		if i+utf8.RuneLen(r) > maxURL || unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>\"`{}|\\^«»“”„…‘", r) || isWide(r) || r == utf8.RuneError {
			return s[:i]
		}
	}
	return s
}

// trimURL cuts the characters that belong to the sentence off the end of a URL.
func trimURL(s string) string {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		switch {
		case strings.ContainsRune(".,;:!?'*_’", r):
		case r == ')' && strings.Count(s, "(") < strings.Count(s, ")"):
		case r == ']' && strings.Count(s, "[") < strings.Count(s, "]"):
		default:
			return s
		}
		s = s[:len(s)-n]
	}
	return s
}

func validURL(s string) bool {
	if len(s) > 4 && strings.EqualFold(s[:4], "www.") {
		return domain(s) != "" && strings.Count(domain(s), ".") >= 2
	}
	u, err := url.Parse(s)
	return err == nil && (u.Host != "" && u.Hostname() != "" || u.Scheme == "file" && len(u.Path) > 1)
}
