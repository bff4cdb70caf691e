package task

import (
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// The least number of tokens that a clause may have on each side of a cut;
// Han characters are tokens of their own.
const (
	leastLeft, leastRight       = 3, 2
	leastLeftHan, leastRightHan = 4, 4
)

// cutClauses cuts a sentence where another act begins: after a comma or an
// "and" that is followed by a verb, at "then", "but" and the like. The word
// that joins stays out, the one that orders goes with what it orders.
func cutClauses(sentence string, x *words.Lexicon, l words.Language) []string {
	tokens := words.Cut(sentence)
	hits := x.Find(tokens)
	at := map[int][]words.Hit{}
	for _, h := range hits {
		at[h.From] = append(at[h.From], h)
	}
	left, right := leastLeft, leastRight
	if l == words.Chinese {
		left, right = leastLeftHan, leastRightHan
	}
	var out []string
	start := 0 // token
	cut := func(end, next int) {
		out = append(out, trimClause(sentence[offset(tokens, start, sentence):offset(tokens, end, sentence)]))
		start = next
	}
	for i := 1; i < len(tokens); i++ {
		if i-start < left || len(tokens)-i < right {
			continue
		}
		end, next, ok := boundary(sentence, tokens, at, start, i, l)
		if !ok || end-start < left || inside(sentence[offset(tokens, start, sentence):tokens[i].Start]) {
			continue
		}
		cut(end, next)
	}
	if start == 0 {
		return []string{trimClause(sentence)}
	}
	cut(len(tokens), len(tokens))
	return out
}

// offset is where token i starts, but for the first, with what stands before.
func offset(tokens []words.Token, i int, sentence string) int {
	switch {
	case i == 0:
		return 0
	case i >= len(tokens):
		return len(sentence)
	}
	start := tokens[i].Start
	// An opening mark belongs to what it opens.
	for start > tokens[i-1].End && strings.ContainsRune("\"'`$€£<[(#@", rune(sentence[start-1])) {
		start--
	}
	return start
}

// boundary reports whether a clause ends before token i: it then ends with
// token end-1, and the next starts with token next.
func boundary(sentence string, tokens []words.Token, at map[int][]words.Hit, start, i int, l words.Language) (end, next int, ok bool) {
	gap := sentence[tokens[i-1].End:tokens[i].Start]
	comma := strings.ContainsAny(gap, ",，、:：—") || strings.Contains(gap, " - ")
	semicolon := strings.ContainsAny(gap, ";；")
	var and, then, but, act, not, ifs bool
	to := i
	for _, h := range at[i] {
		switch {
		case h.Class == "act":
			act = true
		case h.Class != "mark":
		case h.Name == "and":
			and, to = true, h.To
		case h.Name == "then" || (h.Name == "last" || h.Name == "first") && comma:
			then = true
		case h.Name == "but":
			but, to = true, h.To
		case h.Name == "not":
			not = true
		case h.Name == "if":
			ifs = true
		}
	}
	if semicolon {
		return i, i, true
	}
	// "After the cutover, keep …": the comma ends what stands before its clause.
	subordinate := false
	for _, h := range at[start] {
		subordinate = subordinate || h.Class == "mark" && (h.Name == "before" || h.Name == "after" || h.Name == "if")
	}
	if and {
		// "and then", "and add"
		for _, h := range at[to] {
			if h.Class == "act" || h.Class == "mark" && (h.Name == "then" || h.Name == "last") {
				return i, to, true
			}
		}
	}
	switch {
	case but:
		return i, to, true
	case then && (comma || l != words.Chinese):
		return i, i, true
	case comma && act && !strings.ContainsAny(gap, "、") && !subordinate:
		return i, i, true
	case comma && not && l == words.Chinese && !ifs:
		return i, i, true
	}
	return 0, 0, false
}

// inside reports whether a bracket or quotation mark is open at the end of
// text: what is in one stays together.
func inside(text string) bool {
	return strings.Count(text, "(") > strings.Count(text, ")") || strings.Count(text, "（") > strings.Count(text, "）") ||
		strings.Count(text, "„")+strings.Count(text, "“") > strings.Count(text, "”") || strings.Count(text, "«") > strings.Count(text, "»") ||
		strings.Count(text, "\"")%2 == 1
}

// trimClause takes off the marks that join clauses.
func trimClause(s string) string {
	t := strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;，；、:：。.!！…", r) })
	if t == "" {
		return strings.TrimSpace(s)
	}
	return t
}
