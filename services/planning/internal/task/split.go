package task

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// Clean makes text safe to read and repeat: valid UTF-8, without control characters and without characters
// that change the direction of writing.
func Clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\n':
			return r
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200D':
			return -1
		}
		return r
	}, text)
}

// place is the place of a clause.
type place struct {
	item bool // of a list
}

type clause struct {
	text string
	place
}

// split cuts text into at most limit clauses. A longer text is cut into sentences, or, if these are too
// many, into limit groups of them.
func split(text string, x *words.Lexicon, l words.Language, limit int) []clause {
	var sentences, clauses []clause
	for _, line := range lines(text, x) {
		for _, s := range cutSentences(line.text) {
			sentences = append(sentences, clause{s, line.place})
		}
	}
	for _, s := range sentences {
		for _, c := range cutClauses(s.text, x, l) {
			clauses = append(clauses, clause{c, s.place})
		}
	}
	switch {
	case len(clauses) == 0:
		return []clause{{text: strings.TrimSpace(text)}}
	case len(clauses) <= limit:
		return clauses
	case len(sentences) <= limit:
		return sentences
	}
	return runs(sentences, limit)
}

// runs joins sentences into limit groups of about equal size.
func runs(sentences []clause, limit int) []clause {
	out := make([]clause, 0, limit)
	for i := range limit {
		from, to := i*len(sentences)/limit, (i+1)*len(sentences)/limit
		var b strings.Builder
		for j, s := range sentences[from:to] {
			if j > 0 {
				b.WriteString("; ")
			}
			b.WriteString(s.text)
		}
		out = append(out, clause{b.String(), sentences[from].place})
	}
	return out
}

// lines returns paragraphs and list items. It joins hand-wrapped lines. A heading such as "Requirements:"
// is not a demand if items follow it.
func lines(text string, x *words.Lexicon) []clause {
	var out []clause
	open := false
	for raw := range strings.SplitSeq(text, "\n") {
		line := strings.TrimSpace(raw)
		if !strings.ContainsFunc(line, isWordRune) {
			open = false
			continue
		}
		body, item := unmark(line)
		if first, _ := utf8.DecodeRuneInString(line); open && !item && unicode.IsLower(first) {
			out[len(out)-1].text += " " + body
			continue
		}
		if last := len(out) - 1; item && last >= 0 && isHeading(out[last], x) {
			out = out[:last]
		}
		out = append(out, clause{body, place{item}})
		open = true
	}
	return out
}

// headingWords is the largest number of tokens in a heading.
const headingWords = 4

func isHeading(c clause, x *words.Lexicon) bool {
	if c.item || len(c.text) > 80 || !strings.HasSuffix(c.text, ":") && !strings.HasSuffix(c.text, "：") {
		return false
	}
	tokens := words.Cut(c.text)
	return len(tokens) <= headingWords && !slices.ContainsFunc(x.Find(tokens), func(h words.Hit) bool { return h.Class == "act" })
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// unmark removes the mark of a list item or a heading from a line: "- ", "2. ", "[FR-1] ", "## ".
func unmark(line string) (body string, item bool) {
	rest := strings.TrimLeft(line, "-*•–—·+#>")
	if n := len(line) - len(rest); n > 0 && n <= 6 && (strings.HasPrefix(rest, " ") || n > 0 && strings.HasPrefix(line, "•")) {
		return orLine(strings.TrimSpace(rest), line), !strings.HasPrefix(line, "#")
	}
	if strings.HasPrefix(line, "[") {
		if end := strings.IndexByte(line, ']'); end > 0 && end <= 12 && end+1 < len(line) {
			return orLine(strings.TrimSpace(line[end+1:]), line), true
		}
	}
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	if digits == 0 && len(line) > 1 && line[0] >= 'a' && line[0] <= 'z' {
		digits = 1 // "a) "
		if line[1] != ')' {
			return line, false
		}
	}
	if digits == 0 || digits > 3 {
		return line, false
	}
	for _, mark := range []string{". ", ") ", "、", "．", "）"} {
		if rest, ok := strings.CutPrefix(line[digits:], mark); ok {
			return orLine(strings.TrimSpace(rest), line), true
		}
	}
	return line, false
}

// orLine returns the whole line if its body has no word.
func orLine(body, line string) string {
	if !strings.ContainsFunc(body, isWordRune) {
		return line
	}
	return body
}

// abbreviations end in a full stop that does not end a sentence.
var abbreviations = map[string]bool{
	"e.g": true, "i.e": true, "etc": true, "vs": true, "approx": true, "no": true, "dr": true, "mr": true, "mrs": true, "ms": true,
	"np": true, "tzn": true, "tj": true, "itp": true, "itd": true, "m.in": true, "ul": true, "godz": true, "ok": true, "maks": true, "min": true, "prof": true, "nr": true, "św": true,
	"т.е": true, "т.д": true, "т.п": true, "т.к": true, "др": true, "руб": true, "тыс": true, "ул": true, "г": true, "им": true, "стр": true, "млн": true,
}

// cutSentences cuts a line at the marks that end a sentence.
func cutSentences(line string) []string {
	var out []string
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(line[start:end]); strings.ContainsFunc(s, isWordRune) {
			out = append(out, s)
		} else if s != "" && len(out) > 0 {
			out[len(out)-1] += s
		}
		start = end
	}
	for i, r := range line {
		end := i + utf8.RuneLen(r)
		switch r {
		case '。', '！', '？', '；':
			add(end)
		case '.', '!', '?', ';', '…':
			if end == len(line) || line[end] == ' ' && (r != '.' || !abbreviated(line[start:i], line[end:])) {
				add(end)
			}
		}
	}
	add(len(line))
	return out
}

// abbreviated reports whether a full stop after before belongs to its last word: a known abbreviation, or
// one followed by lower case.
func abbreviated(before, after string) bool {
	word := before[strings.LastIndexAny(before, " (")+1:]
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, " "))
	return abbreviations[strings.ToLower(word)] || unicode.IsLower(next) && utf8.RuneCountInString(word) <= 4
}

// HasWord reports whether text has a letter or digit at all.
func HasWord(text string) bool { return strings.ContainsFunc(Clean(text), isWordRune) }
