// Package words cuts text into words and knows what the words of English, Polish, Russian and Chinese mean
// for a piece of work. The word lists are in data/, and data/README.txt describes their format. Start at
// Lexicon.Find.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind distinguishes words, numbers and Han characters.
type Kind int

// Kinds of token.
const (
	Word Kind = iota
	Number
	// Han is one Chinese character; the lists recognise words.
	Han
)

// Token is a word, a number or a Han character.
type Token struct {
	// Text is folded: lower case, "ё" as "е", simplified characters.
	Text string
	// Start and End are byte offsets in the text given to Cut.
	Start, End int
	Kind       Kind
}

// Cut splits text into tokens in one pass. Letters after a number make a token
// of their own ("200ms"), digits after a letter do not ("p99", "OAuth2").
func Cut(text string) []Token {
	var out []Token
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case isHan(r):
			out = append(out, Token{string(Simplified(r)), i, i + n, Han})
			i += n
		case unicode.IsDigit(r):
			end := numberEnd(text, i)
			out = append(out, Token{text[i:end], i, end, Number})
			i = end
		case isLetter(r):
			end := wordEnd(text, i)
			out = append(out, Token{fold(text[i:end]), i, end, Word})
			i = end
		default:
			i += n
		}
	}
	return out
}

// numberEnd skips digits, and single marks between two digits, which keeps dates, versions and decimals
// together.
func numberEnd(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if unicode.IsDigit(r) {
			i += n
			continue
		}
		if !strings.ContainsRune(".,:-/", r) {
			return i
		}
		if next, _ := utf8.DecodeRuneInString(text[i+n:]); !unicode.IsDigit(next) {
			return i
		}
		i += n
	}
	return i
}

func wordEnd(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if isLetter(r) || unicode.IsDigit(r) {
			i += n
			continue
		}
		if r != '\'' && r != '’' && r != '-' && r != '_' {
			return i
		}
		if next, _ := utf8.DecodeRuneInString(text[i+n:]); !isLetter(next) {
			return i
		}
		i += n
	}
	return i
}

func isLetter(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsMark(r)) && !isHan(r)
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

func fold(word string) string { return folder.Replace(strings.ToLower(word)) }

var folder = strings.NewReplacer("ё", "е", "’", "'")
