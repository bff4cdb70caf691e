package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Sentence is one sentence, or one heading or list item on its own.
type Sentence struct {
	// Text is the sentence as written, without surrounding space and without
	// a Markdown heading, quote or bullet mark before it. It may hold line
	// breaks if the source was wrapped by hand.
	Text string
	// Start is the byte offset of Text in the text given to Sentences.
	Start int
}

// Sentences splits text into sentences, in order. A piece without a letter or digit joins the sentence
// before it on the same line; otherwise it is dropped. Offsets hold for valid UTF-8: bad bytes are first
// replaced by U+FFFD.
func Sentences(text string) []Sentence {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	s := splitter{text: text}
	joined := mask(unwrap(text))
	start := 0
	it := sentences.FromString(joined)
	for it.Next() {
		end := it.End()
		end -= opening(joined[start:end], joined[end:])
		if !continues(joined[start:end], joined[end:]) {
			s.turns(start, end)
			start = end
		}
	}
	s.turns(start, len(text))
	return s.out
}

// splitter collects the sentences of one text.
type splitter struct {
	text string
	out  []Sentence
	end  int // offset after the last sentence emitted
}

// turns emits text[start:end], split before each dash that starts another speaker's turn: "— Why? —
// Because." In UAX #29 the sentence continues after a dash.
func (s *splitter) turns(start, end int) {
	for from := start; ; {
		i := strings.IndexAny(s.text[from:end], "–—")
		if i < 0 {
			break
		}
		dash := from + i
		from = dash + len("–")
		if startsTurn(s.text[start:dash], s.text[from:end]) {
			s.ellipses(start, dash)
			start = dash
		}
	}
	s.ellipses(start, end)
}

// ellipses emits text[start:end], split after each "…" that is followed by a space and a capital or Han
// character: "…" has no role in UAX #29.
func (s *splitter) ellipses(start, end int) {
	for from := start; ; {
		i := strings.Index(s.text[from:end], "…")
		if i < 0 {
			break
		}
		from += i + len("…")
		rest := s.text[from:end]
		next := strings.TrimLeftFunc(rest, unicode.IsSpace)
		if len(next) == len(rest) {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(next); unicode.IsUpper(r) || IsHan(next) {
			s.emit(start, from)
			start = from
		}
	}
	s.emit(start, end)
}

// emit records text[start:end] as a sentence.
func (s *splitter) emit(start, end int) {
	piece := s.text[start:end]
	if !HasWord(piece) {
		// A stray closing mark belongs to the sentence it closes.
		if n := len(s.out); n > 0 && !strings.Contains(s.text[s.end:start], "\n") && !strings.HasPrefix(piece, "\n") {
			trimmed := strings.TrimRightFunc(piece, unicode.IsSpace)
			if trimmed != "" && !strings.ContainsAny(s.text[s.end-1:start+len(trimmed)], "\n\r") {
				s.out[n-1].Text = s.text[s.out[n-1].Start : start+len(trimmed)]
				s.end = start + len(trimmed)
			}
		}
		return
	}
	body := strings.TrimLeftFunc(piece, unicode.IsSpace)
	body = body[markerLen(body):]
	body = strings.TrimLeftFunc(body, unicode.IsSpace)
	start = end - len(body)
	body = strings.TrimRightFunc(body, unicode.IsSpace)
	s.out = append(s.out, Sentence{Text: body, Start: start})
	s.end = start + len(body)
}

// markerLen returns the length of the Markdown heading, quote or bullet marks at the start of line,
// including the space after them.
func markerLen(line string) int {
	rest := strings.TrimLeft(line, "#>*+-•")
	n := len(line) - len(rest)
	if n == 0 || n > 6 || rest == "" || (rest[0] != ' ' && rest[0] != '\t') {
		return 0
	}
	return n + 1
}

// Number of columns from which a line counts as wrapped by hand: few if the next line continues in lower
// case, more otherwise.
const (
	wrapLower = 30
	wrapAny   = 50
)

// unwrap replaces the line breaks inside hand-wrapped paragraphs by spaces, because UAX #29 ends a
// sentence at every line break. Offsets do not change.
func unwrap(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	buf := []byte(text)
	prev, prevEnd := "", 0
	for start := 0; start < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i
		}
		line := strings.TrimSpace(text[start:end])
		if prev != "" && line != "" && wrapped(prev, line) {
			for i := prevEnd; i < start; i++ {
				if buf[i] == '\n' || buf[i] == '\r' {
					buf[i] = ' '
				}
			}
		}
		prev, prevEnd, start = line, max(end-1, start), end+1
	}
	return string(buf)
}

// wrapped reports whether next continues the sentence of the line prev.
func wrapped(prev, next string) bool {
	if isBlock(next) || prev[0] == '#' || prev[0] == '|' {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(prev)
	first, _ := utf8.DecodeRuneInString(next)
	width := columns(prev, wrapAny)
	if unicode.IsLower(first) {
		return width >= wrapLower
	}
	return width >= wrapAny && !strings.ContainsRune(".!?…:;。！？：；", last)
}

// isBlock reports whether line begins a heading, list item, quote, table row
// or code fence.
func isBlock(line string) bool {
	if markerLen(line) > 0 || line[0] == '|' || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "• ") {
		return true
	}
	rest := strings.TrimLeft(line, "0123456789")
	return rest != line && rest != "" && (rest[0] == '.' || rest[0] == ')')
}

// columns returns the width of line on a terminal, counted up to limit; a Han character takes two.
func columns(line string, limit int) int {
	n := 0
	for _, r := range line {
		n++
		if r >= 0x2E80 {
			n++
		}
		if n >= limit {
			break
		}
	}
	return n
}
