package tidy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// prose rewrites the lines of text that are not code.
func prose(text string, rewrite func(string) string) string {
	return lines(text, func(line string, f form) string {
		if f == code {
			return line
		}
		return rewrite(line)
	})
}

// wide lists the Chinese and Japanese marks that take no spaces around them.
const wide = "，。！？；：、（）《》「」"

// punctuate drops the spaces that do not belong around punctuation in a text of language l. French keeps
// spaces before its two-part marks.
func punctuate(l language.Language) func(string) string {
	marks := ",.;:!?)"
	if l == "fr" {
		marks = ",.)"
	}
	return func(line string) string {
		if !strings.ContainsAny(line, marks+wide) {
			return line
		}
		var b strings.Builder
		b.Grow(len(line))
		var last rune // the last rune written
		for i := 0; i < len(line); {
			r, n := utf8.DecodeRuneInString(line[i:])
			if r != ' ' || last == 0 {
				b.WriteString(line[i : i+n])
				last = r
				i += n
				continue
			}
			rest := strings.TrimLeft(line[i:], " ")
			next, size := utf8.DecodeRuneInString(rest)
			behind, _ := utf8.DecodeRuneInString(rest[min(size, len(rest)):])
			switch {
			case strings.ContainsRune(wide, last) || rest != "" && strings.ContainsRune(wide, next):
			case rest != "" && strings.ContainsRune(marks, next) && closes(last) && (behind == utf8.RuneError || unicode.IsSpace(behind)):
			case next == '.' && closes(last) && swaps(rest[1:]): // "Jane .To" is "Jane. To"
				b.WriteByte('.')
				rest = " " + rest[1:]
			case next == ',' && closes(last) && unicode.IsLetter(behind): // "one ,two"
				b.WriteByte(',')
				rest = " " + rest[1:]
			default:
				b.WriteString(line[i : len(line)-len(rest)])
				last = ' '
				i = len(line) - len(rest)
				continue
			}
			line, i = rest, 0
		}
		return b.String()
	}
}

// closes reports whether punctuation may follow r directly.
func closes(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Pe, unicode.Pf) || r == '"' || r == '\''
}

// swaps reports whether rest is a word of a sentence, not a name like ".NET".
func swaps(rest string) bool {
	first, n := utf8.DecodeRuneInString(rest)
	second, _ := utf8.DecodeRuneInString(rest[min(n, len(rest)):])
	return unicode.IsUpper(first) && (unicode.IsLower(second) || unicode.IsSpace(second))
}

// sentenceCase starts sentences of prose with a capital.
func sentenceCase(text string) string {
	out := []byte(text)
	start := 0 // of the line
	last := rune(0)
	lines(text, func(line string, f form) string {
		if f != code {
			last = capitals(text, out, start, start+len(line), last)
		}
		start += len(line)
		if r, n := utf8.DecodeRuneInString(text[start:]); n > 0 && isBreak(r) {
			start += n
		}
		return line
	})
	return string(out)
}

// lookBack is the number of bytes before a mark that are searched for an abbreviation.
const lookBack = 128

// capitals makes the first letter of each sentence in text[from:to] a capital. last is the last
// visible character of the prose before, 0 for none.
func capitals(text string, out []byte, from, to int, last rune) rune {
	opens := last == 0 || strings.ContainsRune(".!?…。！？", last)
	for i := from; i < to; {
		r, n := utf8.DecodeRuneInString(text[i:to])
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			if upper := unicode.ToUpper(r); opens && utf8.RuneLen(upper) == n && !named(firstField(text[i:to])) {
				utf8.EncodeRune(out[i:], upper)
			}
			opens = false
			i += n
			last = r
			continue
		case strings.ContainsRune(".!?", r):
			rest := text[i+n : to]
			sofar := text[max(from, i-lookBack) : i+n]
			behind := strings.TrimLeft(strings.TrimLeft(rest, "\"'”’»)"), " ")
			opens = len(behind) < len(rest) && behind != "" && segment.EndsSentence(sofar, behind)
			if !opens && rest == "" {
				last = r
				if !segment.EndsSentence(sofar, "") {
					last = ','
				}
				i += n
				continue
			}
		}
		if !unicode.IsSpace(r) && !strings.ContainsRune("\"'”’»)“„«(*_", r) {
			last = r
		}
		i += n
	}
	return last
}

func firstField(s string) string {
	if end := strings.IndexFunc(s, unicode.IsSpace); end >= 0 {
		return s[:end]
	}
	return s
}

// named reports whether the spelling of a word is deliberate: "iPhone", "snake_case", "npm.js".
func named(word string) bool {
	word = strings.TrimRight(word, ".,;:!?…\"'”’»)")
	return strings.ContainsAny(word, "_./\\=()@") || strings.ContainsFunc(word, unicode.IsUpper)
}
