// Package terminal lays text out for people, and keeps what others wrote from steering
// their terminal.
package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// defaultWidth is a terminal's width when nothing says otherwise.
const defaultWidth = 80

// Style writes with or without colour.
type Style struct{ colour bool }

func (s Style) paint(code, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold, Dim, Red and Yellow write text that way.
func (s Style) Bold(text string) string { return s.paint("1", text) }
func (s Style) Dim(text string) string  { return s.paint("2", text) }
func (s Style) Red(text string) string  { return s.paint("31", text) }

func (s Style) Yellow(text string) string { return s.paint("33", text) }

// NewStyle decides on colour: on a terminal, unless NO_COLOR is set to
// anything (no-color.org) or the terminal knows no colours.
func NewStyle(terminal bool, getenv func(string) string) Style {
	return Style{colour: terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// Columns returns the width to lay out for.
func Columns(given int, getenv func(string) string) int {
	if given <= 0 {
		given, _ = strconv.Atoi(getenv("COLUMNS")) // unset or odd: 0
	}
	if given <= 0 {
		given = defaultWidth
	}
	return max(given, 30)
}

// harmful reports whether a character steers a terminal or disguises text:
// control characters, and those that turn the direction of writing around.
func harmful(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == '\u2028' || r == '\u2029'
}

// SafeText makes a server's text safe to show: what would steer the terminal
// is written as an escape. Line breaks and tabs stay.
func SafeText(s string) string {
	if strings.IndexFunc(s, harmful) < 0 && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || !harmful(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// SafeLine is SafeText on one line: white space becomes a space.
func SafeLine(s string) string { return SafeText(strings.Join(strings.Fields(s), " ")) }

// SafeJSON makes JSON safe to show and leaves its value alone: what is harmful
// can only stand inside a string, where an escape means the same.
func SafeJSON(s string) string {
	if strings.IndexFunc(s, harmful) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && harmful(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Cells is the width of a text on a terminal.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Clip cuts a text to a width.
func Clip(s string, limit int) string {
	if Cells(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeCells(r); n > limit-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Wrap breaks a text into lines of at most limit cells: at white space, or
// within a word that is wider than a line. Line breaks of the text stay.
func Wrap(text string, limit int) []string {
	limit = max(limit, 10)
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line, used := "", 0
		for word := range strings.FieldsSeq(paragraph) {
			w := Cells(word)
			if used > 0 && used+1+w <= limit {
				line, used = line+" "+word, used+1+w
				continue
			}
			if used > 0 {
				lines = append(lines, line)
			}
			for w > limit {
				head := cut(word, limit)
				lines = append(lines, head)
				word = word[len(head):]
				w = Cells(word)
			}
			line, used = word, w
		}
		lines = append(lines, line)
	}
	return lines
}

// cut returns as much of the start of a word as fits; at least one character.
func cut(word string, limit int) string {
	n := 0
	for i, r := range word {
		if n += runeCells(r); n > limit && i > 0 {
			return word[:i]
		}
	}
	return word
}
