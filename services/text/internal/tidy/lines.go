package tidy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// form is the kind of text that a line belongs to.
type form int

const (
	running form = iota // prose
	listed              // an item of a list
	code
)

// isBreak reports whether r ends a line.
func isBreak(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

// lines rewrites text line by line and keeps the line breaks.
func lines(text string, rewrite func(line string, f form) string) string {
	var all, breaks []string
	rest := text
	for {
		end := strings.IndexFunc(rest, isBreak)
		if end < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(rest[end:])
		all, breaks = append(all, rest[:end]), append(breaks, rest[end:end+n])
		rest = rest[end+n:]
	}
	all, breaks = append(all, rest), append(breaks, "")
	var b strings.Builder
	b.Grow(len(text))
	for i, f := range forms(all) {
		b.WriteString(rewrite(all[i], f))
		b.WriteString(breaks[i])
	}
	return b.String()
}

const fence = "```"

// forms returns the form of each line. Code is text between fences, and a block with a line that opens
// what the next, indented further, continues; indented blocks after it belong to it.
func forms(all []string) []form {
	out := make([]form, len(all))
	fenced, before := false, false // before: the previous block is code
	for from := 0; from < len(all); {
		if blank(all[from]) {
			if fenced {
				out[from] = code
			}
			from++
			continue
		}
		to, isCode := from, false
		for to < len(all) && !blank(all[to]) {
			to++
		}
		isCode = opensBlock(all[from:to]) || before && indent(all[from]) > 0
		for i := from; i < to; i++ {
			marks := strings.HasPrefix(strings.TrimLeft(all[i], " \t>"), fence)
			switch {
			case fenced || marks || isCode:
				out[i] = code
			case isItem(all[i]):
				out[i] = listed
			}
			if marks {
				fenced = !fenced
			}
		}
		from, before = to, isCode
	}
	return out
}

// opensBlock reports whether one of the lines opens a block of code.
func opensBlock(block []string) bool {
	for i := range len(block) - 1 {
		line := strings.TrimRightFunc(block[i], unicode.IsSpace)
		last, _ := utf8.DecodeLastRuneInString(line)
		if strings.ContainsRune(":{([=>;,\\", last) && indent(block[i+1]) > indent(block[i]) && !isItem(block[i+1]) {
			return true
		}
	}
	return false
}

// isItem reports whether a line is an item of a list: "- one", "2. two".
func isItem(line string) bool {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	rest := strings.TrimLeft(line, "-*+•")
	if n := len(line) - len(rest); n == 0 || n > len("•") {
		rest = strings.TrimLeft(line, "0123456789")
		if rest == line || rest == "" || rest[0] != '.' && rest[0] != ')' {
			return false
		}
		rest = rest[1:]
	}
	return strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t")
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

// indent returns the width of the leading space of a line; a tab counts as four.
func indent(line string) int {
	n := 0
	for _, r := range line {
		switch {
		case r == '\t':
			n += 4
		case unicode.IsSpace(r):
			n++
		default:
			return n
		}
	}
	return 0
}

// spaces turns runs of spaces into one, and drops those around the line.
func spaces(line string, f form) string {
	if f == code {
		return strings.TrimRightFunc(line, unicode.IsSpace)
	}
	short := strings.Join(strings.Fields(line), " ")
	if f == listed {
		return line[:len(line)-len(strings.TrimLeftFunc(line, unicode.IsSpace))] + short
	}
	return short
}
