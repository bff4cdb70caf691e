// Package tidy cleans the form of text without touching what it says. It is
// meant for prose: indentation, as in program code, is lost.
package tidy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Option is one way of cleaning.
type Option string

// The options, in the order they are applied in whatever order they are given.
const (
	// LineEndings makes every line break a "\n".
	LineEndings Option = "line_endings"
	// Invisible drops control characters but tab and line feed, soft hyphens,
	// byte order marks and zero-width spaces. Joiners stay: emoji and some
	// scripts need them.
	Invisible Option = "invisible"
	// UnicodeNFC composes characters to Unicode normalization form C. It comes
	// after Invisible, which may bring a letter and its accent together.
	UnicodeNFC Option = "unicode_nfc"
	// Whitespace makes runs of spaces, tabs and no-break spaces one space and
	// drops those around line breaks.
	Whitespace Option = "whitespace"
	// BlankLines leaves at most one blank line between paragraphs.
	BlankLines Option = "blank_lines"
	// Trim drops white space around the text.
	Trim Option = "trim"
	// SentenceCase starts every sentence with a capital. It changes words
	// ("iPhone") and so must be asked for.
	SentenceCase Option = "sentence_case"
)

// Options are all options, in order of application.
var Options = []Option{LineEndings, Invisible, UnicodeNFC, Whitespace, BlankLines, Trim, SentenceCase}

// Default is what is applied when no option is given: all but SentenceCase.
var Default = Options[:len(Options)-1]

var steps = map[Option]func(string) string{
	UnicodeNFC:   norm.NFC.String,
	LineEndings:  lineEndings.Replace,
	Invisible:    func(s string) string { return strings.Map(visible, s) },
	Whitespace:   whitespace,
	BlankLines:   blankLines,
	Trim:         strings.TrimSpace,
	SentenceCase: sentenceCase,
}

// Apply cleans text. Unknown options are ignored.
func Apply(text string, options []Option) string {
	asked := make(map[Option]bool)
	for _, o := range options {
		asked[o] = true
	}
	for _, o := range Options {
		if asked[o] {
			text = steps[o](text)
		}
	}
	return text
}

var lineEndings = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n\n")

func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case unicode.IsControl(r) && r != '\r' && r != '\u0085', r == '\u00AD', r == '\uFEFF', r == '\u200B', r == '\u2060':
		return -1
	}
	return r
}

func whitespace(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	pending, lineStart := false, true
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			pending, lineStart = false, true
			b.WriteRune(r)
		case unicode.IsSpace(r):
			pending = true
		default:
			if pending && !lineStart {
				b.WriteByte(' ')
			}
			pending, lineStart = false, false
			b.WriteRune(r)
		}
	}
	return b.String()
}

func blankLines(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	blank := false
	for line := range strings.Lines(text) {
		empty := strings.TrimSpace(line) == ""
		if !(empty && blank) {
			b.WriteString(line)
		}
		blank = empty
	}
	return b.String()
}

func sentenceCase(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	done := 0
	for _, s := range segment.Sentences(text) {
		i := s.Start + strings.IndexFunc(s.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
		r, n := utf8.DecodeRuneInString(text[i:])
		b.WriteString(text[done:i])
		b.WriteRune(unicode.ToUpper(r))
		done = i + n
	}
	b.WriteString(text[done:])
	return b.String()
}
