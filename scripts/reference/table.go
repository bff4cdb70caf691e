package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCell is the longest text of a cell, in characters: as long as a line.
const maxCell = 100

// table writes rows of Markdown below a header. If a text is too long for a cell, the cell has its
// first sentence, if that fits, and a list below the table has the rest.
func table(header []string, rows [][]string) string {
	var b, notes strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(header)
	b.WriteString("|" + strings.Repeat("---|", len(header)) + "\n")
	for _, cells := range rows {
		var rest []string
		for i, text := range cells {
			if utf8.RuneCountInString(text) <= maxCell {
				continue
			}
			cells = slices.Clone(cells)
			first, more := split(text)
			if cells[i] = first; more == "" || utf8.RuneCountInString(first) > maxCell {
				cells[i], more = "see below", text
			}
			rest = append(rest, strings.TrimSuffix(more, ".")+".")
		}
		line(cells)
		if rest != nil {
			notes.WriteString(wrap("- "+cells[0]+": "+strings.Join(rest, " "), "  "))
		}
	}
	if notes.Len() > 0 {
		b.WriteString("\n" + notes.String())
	}
	return b.String()
}

// split returns the first sentence of a text, without its full stop, and the others.
func split(text string) (first, rest string) {
	for _, at := range regexp.MustCompile("[.] +(?:[A-Z`-]|tool is|operation is)").FindAllStringIndex(text, -1) {
		return text[:at[0]], strings.TrimSpace(text[at[0]+1:])
	}
	return strings.TrimSuffix(text, "."), ""
}

// wrap breaks a text of one paragraph into lines of at most 100 characters; all but the first
// begin with indent.
func wrap(text, indent string) string {
	const width = 100
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, line)
			line = indent + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

// code puts a text in backquotes; an empty one is a dash.
func quoted(text string) string {
	if text == "" {
		return "–"
	}
	return "`" + text + "`"
}
