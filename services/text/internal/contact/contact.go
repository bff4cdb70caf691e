// Package contact finds e-mail addresses, URLs and telephone numbers in text. The grammars are
// hand-written, not regular expressions: each looks for a mark (an "@", a "://", a digit) and from there
// only as far as such a thing can reach, so that time is linear in the text. Results are exactly as
// written, in order of appearance, each once, and never nil. Start at Emails.
package contact

import (
	"context"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkEvery is the number of candidates between two checks of the context.
const checkEvery = 1024

// finds collects distinct strings in order.
type finds struct {
	list []string
	seen map[string]bool
}

func newFinds() *finds { return &finds{list: []string{}, seen: make(map[string]bool)} }

func (f *finds) add(s string) {
	if !f.seen[s] {
		f.seen[s] = true
		f.list = append(f.list, s)
	}
}

// Limits of RFC 5321, in bytes.
const (
	maxLocal  = 64
	maxDomain = 253
	maxLabel  = 63
)

// Emails finds e-mail addresses: a dot-atom of RFC 5322, "@", and a domain of at least two labels, the
// last of at least two letters. Letters of any script except Han and kana are accepted (RFC 6531).
func Emails(ctx context.Context, text string) ([]string, error) {
	return gather(ctx, text, emails(text))
}

// gather lists the text at places; an empty place is a candidate that turned out not to be a find.
func gather(ctx context.Context, text string, places iter.Seq2[int, int]) ([]string, error) {
	found := newFinds()
	n := 0
	for start, end := range places {
		if n++; n%checkEvery == 1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if start < end {
			found.add(text[start:end])
		}
	}
	return found.list, ctx.Err()
}

// emails yields the position of each address in text, and an empty place for any other "@".
func emails(text string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from := 0; ; {
			i := strings.IndexByte(text[from:], '@')
			if i < 0 {
				return
			}
			at := from + i
			start := localStart(text, from, at)
			end := at + 1 + len(domain(text[at+1:]))
			from = at + 1
			if start < at && end > at+1 && !inAuthority(text, start) {
				from = end
			} else {
				start, end = at, at
			}
			if !yield(start, end) {
				return
			}
		}
	}
}

// Blank replaces URLs and e-mail addresses by spaces, for code that reads the words around them. Offsets
// do not change.
func Blank(text string) string {
	if !strings.ContainsAny(text, "@.:") {
		return text
	}
	return blank(blank(text, urls(text)), emails(text))
}

func blank(text string, places iter.Seq2[int, int]) string {
	var b strings.Builder
	done := 0
	for start, end := range places {
		if start < max(end, done) {
			b.WriteString(text[done:start])
			for range end - start {
				b.WriteByte(' ')
			}
			done = end
		}
	}
	return b.String() + text[done:]
}

// inAuthority reports whether text[at] stands between a URL's "://" and its host: "user:pass@example.com"
// there is not an e-mail address.
func inAuthority(text string, at int) bool {
	run := text[max(0, at-maxDomain):at]
	run = run[strings.LastIndexAny(run, " \t\r\n<>\"'()")+1:]
	_, authority, ok := strings.Cut(run, "://")
	return ok && !strings.ContainsAny(authority, "/?#")
}

// localStart returns the start of the local part before text[at], not before floor, or at if it is
// empty.
func localStart(text string, floor, at int) int {
	start := at
	for start > floor {
		r, n := utf8.DecodeLastRuneInString(text[floor:start])
		if !isLabel(r) && !strings.ContainsRune(".!#$%&'*+/=?^_`{|}~-", r) {
			break
		}
		start -= n
		if at-start > maxLocal {
			return at
		}
	}
	// A local part may contain these marks, but one that starts with them does so by accident.
	local := strings.TrimLeft(text[start:at], ".!#$%&'*+/=?^`{|}~-")
	if local == "" || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return at
	}
	return at - len(local)
}

// domain returns the longest domain name of at least two labels that s starts with, or "".
func domain(s string) string {
	end, labels, start := 0, 0, 0
	for i := 0; ; {
		r, n := utf8.DecodeRuneInString(s[i:])
		if n > 0 && i < maxDomain && (isLabel(r) || r == '-') {
			i += n
			continue
		}
		label := s[start:i]
		trimmed := strings.TrimRight(label, "-")
		if trimmed == "" || label[0] == '-' || len(label) > maxLabel {
			break
		}
		labels++
		if labels >= 2 && isTopLevel(trimmed) {
			end = start + len(trimmed)
		}
		if r != '.' || trimmed != label {
			break
		}
		i++
		start = i
	}
	return s[:end]
}

func isTopLevel(label string) bool {
	if strings.HasPrefix(label, "xn--") {
		return true
	}
	for _, r := range label {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return false
		}
	}
	return utf8.RuneCountInString(label) >= 2
}

// isLabel reports whether r may stand in a domain label. Han and kana are excluded: in running text they
// belong to the sentence, which continues without a space.
func isLabel(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return !isWide(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF
}
