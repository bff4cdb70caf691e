package task

import (
	"slices"
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// The smallest number of tokens of a clause on each side of a cut; each Han character
// is a token.
const (
	leastLeft, leastRight       = 3, 2
	leastLeftHan, leastRightHan = 4, 4
	// leastOrder is for an order followed by another one: "Fix it and tell us".
	leastOrder = 2
)

// cutClauses cuts a sentence where another act begins: after a comma or an "and" that is followed by a
// verb, at "then", "but" and the like. It drops a word that joins, and keeps a word of order with its
// clause.
func cutClauses(sentence string, x *words.Lexicon, l words.Language) []string {
	tokens := words.Cut(sentence)
	at := map[int][]words.Hit{}
	for _, h := range x.Find(tokens) {
		at[h.From] = append(at[h.From], h)
	}
	within := brackets(sentence, tokens)
	lastIf := -1 // the last token before i that opens a condition
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
		if marked(at[i-1], "if") {
			lastIf = i - 1
		}
		if within[i] || i-start < min(left, leastOrder) || len(tokens)-i < right {
			continue
		}
		// "After the cutover, keep …": the comma ends the subordinate part.
		subordinate := lastIf >= start || marked(at[start], "before", "after")
		end, next, ok := boundary(sentence, tokens, at, i, l, subordinate)
		if !ok || end-start < left && !(orders(at[start]) && orders(at[next])) {
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

// offset returns the start of token i, including an opening mark before it.
func offset(tokens []words.Token, i int, sentence string) int {
	switch {
	case i == 0:
		return 0
	case i >= len(tokens):
		return len(sentence)
	}
	start := tokens[i].Start
	// An opening mark belongs to the text that it opens.
	for start > tokens[i-1].End && strings.ContainsRune("\"'`$€£<[(#@", rune(sentence[start-1])) {
		start--
	}
	return start
}

// boundary reports whether a clause ends before token i. If so, its last token is end-1, and the next
// clause starts at token next.
func boundary(sentence string, tokens []words.Token, at map[int][]words.Hit, i int, l words.Language, subordinate bool) (end, next int, ok bool) {
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

// orders reports whether one of hits is an act.
func orders(hits []words.Hit) bool {
	return slices.ContainsFunc(hits, func(h words.Hit) bool { return h.Class == "act" })
}

// marked reports whether one of hits is a mark of one of names.
func marked(hits []words.Hit, names ...string) bool {
	return slices.ContainsFunc(hits, func(h words.Hit) bool { return h.Class == "mark" && slices.Contains(names, h.Name) })
}

// brackets reports for each token whether it is inside brackets or quotation marks, which are not cut.
func brackets(sentence string, tokens []words.Token) []bool {
	out := make([]bool, len(tokens))
	depth, quoted, token := 0, false, 0
	for i, r := range sentence {
		for token < len(tokens) && tokens[token].Start <= i {
			out[token] = depth > 0 || quoted
			token++
		}
		switch r {
		case '(', '（', '«', '„', '「':
			depth++
		case ')', '）', '»', '」', '”':
			depth = max(0, depth-1)
		case '"':
			quoted = !quoted
		}
	}
	return out
}

// trimClause removes the marks that join clauses.
func trimClause(s string) string {
	t := strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;，；、:：。.!！…", r) })
	if t == "" {
		return strings.TrimSpace(s)
	}
	return t
}
