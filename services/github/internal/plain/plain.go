// Package plain makes untrusted text safe to show: of limited size, valid UTF-8, and without characters
// that control a terminal, change the reading order or are invisible. Start at Text.
package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Escape replaces invalid UTF-8, and writes control, bidirectional and
// invisible characters as \uXXXX. Line feeds, tabs and CRLF stay.
func Escape(s string) string {
	i := 0
	for i < len(s) && (s[i] >= 0x20 && s[i] < 0x7f || s[i] == '\n' || s[i] == '\t') {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for s = s[i:]; s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\r' && strings.HasPrefix(s, "\r\n"):
			b.WriteString("\r\n")
			n = 2
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case hidden(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// hidden reports whether a character does anything but show. The joiners U+200C and
// U+200D stay: scripts and emoji need them.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	case r == 0x061c, r == 0x200b, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidi, zero width
		return true
	case r == 0x2028, r == 0x2029, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb:
		return true
	}
	return r >= 0xe0000 && r <= 0xe007f // tags: invisible ASCII
}

// Line returns s on one line of at most limit bytes.
func Line(s string, limit int) string {
	if kept := Cut(s, limit); len(kept) < len(s) {
		s = kept + "…"
	}
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(Escape(s))
}

// Text returns at most limit bytes of s, with a note if it was cut.
func Text(s string, limit int) string {
	kept := Cut(s, limit)
	if len(kept) == len(s) {
		return Escape(s)
	}
	return Escape(kept) + fmt.Sprintf("\n[truncated: %d of %d bytes]", len(kept), len(s))
}

// Cut returns the first limit bytes of s, cut between characters.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := max(limit, 0)
	for back := 0; n > 0 && back < utf8.UTFMax-1 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n]
}

// Budget limits all the texts of one result together.
type Budget int

// Text is like the function, and subtracts the returned size from the budget.
func (b *Budget) Text(s string, limit int) string {
	out := Text(s, min(limit, int(*b)))
	*b = max(0, *b-Budget(len(out)))
	return out
}
