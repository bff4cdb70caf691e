package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// speaks reports whether rest says who spoke the words that sofar ends with: UAX #29 ends a sentence at
// the question mark in «"Why?" asked Ann.»
func speaks(sofar, rest string) bool {
	tail := strings.TrimRightFunc(sofar[max(0, len(sofar)-tailLen):], unicode.IsSpace)
	last, n := utf8.DecodeLastRuneInString(tail)
	quoted := strings.ContainsRune("\"'”’»「」", last)
	if quoted {
		last, _ = utf8.DecodeLastRuneInString(tail[:len(tail)-n])
	}
	if !strings.ContainsRune(".!?…。！？", last) {
		return false
	}
	first, n := utf8.DecodeRuneInString(rest)
	switch {
	case first == '–' || first == '—': // "– Why? – asked Ann."
		first, _ = utf8.DecodeRuneInString(strings.TrimLeftFunc(rest[n:], unicode.IsSpace))
		return unicode.IsLower(first)
	case !quoted:
		return false
	case IsHan(rest):
		return saysChinese(rest)
	}
	return unicode.IsLower(first) && strings.Contains(clause(rest), " ")
}

// startsTurn reports whether a dash between before and after starts another speaker's words: it follows
// the end of a sentence and a capital follows it.
func startsTurn(before, after string) bool {
	tail := strings.TrimRight(before[max(0, len(before)-tailLen):], " \u00A0")
	head := strings.TrimLeft(after, " \u00A0")
	if strings.TrimRight(before, " \u00A0") == before || len(head) == len(after) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(tail, "\"”»"))
	first, _ := utf8.DecodeRuneInString(head)
	return strings.ContainsRune(".!?…", last) && unicode.IsUpper(first)
}

// opening returns the length of the quotation marks and brackets at the end of sofar that open the text in
// rest. UAX #29 treats them as closing ones, which is wrong if no space stands before them: 他笑了。“好。”
func opening(sofar, rest string) int {
	first, _ := utf8.DecodeRuneInString(rest)
	if rest == "" || unicode.IsSpace(first) {
		return 0
	}
	body := strings.TrimRightFunc(sofar, func(r rune) bool { return unicode.In(r, unicode.Ps, unicode.Pi) })
	if body == "" {
		return 0
	}
	return len(sofar) - len(body)
}

// maxClause bounds, in bytes, the clause that says who spoke.
const maxClause = 90

func clause(rest string) string {
	part := rest[:min(len(rest), maxClause)]
	if i := strings.IndexAny(part, ".!?。！？“「：\n"); i >= 0 {
		_, n := utf8.DecodeRuneInString(part[i:])
		part = part[:i+n]
	}
	return part
}

// saysChinese reports whether rest starts with a verb of speaking and the speaker, rather than with the
// next speech.
func saysChinese(rest string) bool {
	c := clause(rest)
	return strings.ContainsAny(c, "说說问問道喊答叫") && !strings.HasSuffix(c, "：")
}
