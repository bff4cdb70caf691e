// Package tidy cleans the form of text without changing its meaning. Program code and nested lists keep
// their indentation. Start at Apply.
package tidy

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
)

// Option is one way of cleaning.
type Option string

// The options, in the order in which they are applied, whatever order the caller gives.
const (
	// LineEndings makes every line break a "\n".
	LineEndings Option = "line_endings"
	// Invisible drops control characters (except tab and line feed), soft hyphens,
	// byte order marks and zero-width spaces. Joiners stay: emoji and some
	// scripts need them.
	Invisible Option = "invisible"
	// UnicodeNFC composes characters to Unicode normalization form C. It comes
	// after Invisible, which may move a letter next to its accent.
	UnicodeNFC Option = "unicode_nfc"
	// Whitespace turns runs of spaces, tabs and no-break spaces into one space and
	// drops those around line breaks. In code it drops only spaces at the end of
	// lines, and list items keep their indentation.
	Whitespace Option = "whitespace"
	// BlankLines leaves at most one blank line between paragraphs.
	BlankLines Option = "blank_lines"
	// Trim drops white space around the text.
	Trim Option = "trim"
	// Punctuation drops spaces before commas, full stops and the like, and
	// around Chinese ones.
	Punctuation Option = "punctuation"
	// SentenceCase starts every sentence with a capital, except a line that
	// continues a sentence. It changes words, so it applies only on request.
	SentenceCase Option = "sentence_case"
)

// Options lists all options, in order of application.
var Options = []Option{LineEndings, Invisible, UnicodeNFC, Whitespace, Punctuation, BlankLines, Trim, SentenceCase}

// Default lists the options used if none is given: all except SentenceCase.
var Default = Options[:len(Options)-1]

var steps = map[Option]func(string) string{
	UnicodeNFC:   norm.NFC.String,
	LineEndings:  lineEndings.Replace,
	Invisible:    func(s string) string { return strings.Map(visible, s) },
	Whitespace:   func(s string) string { return lines(s, spaces) },
	Punctuation:  func(s string) string { return prose(s, punctuate(language.Detect(s))) },
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
