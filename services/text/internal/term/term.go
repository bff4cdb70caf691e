// Package term finds the content words of a text: its words without stop words and numbers, with the forms
// of an inflected word counted as one. Chinese has no spaces, and UAX #29 makes each Han character a word;
// package han joins them. Start at Extract.
package term

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/contact"
	"github.com/busbar-mcp/busbar/services/text/internal/han"
	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Term is one occurrence of a content word.
type Term struct {
	// Surface is the word as written.
	Surface string
	// Form is the folded word: lower case.
	Form string
	// Key is the stem, equal for the inflected forms of a word.
	Key string
	// Sentence is the index of its sentence.
	Sentence int
	// Named is set if the word has a capital that marks a name: inside a sentence
	// that also has small letters.
	Named bool
	// Verbal is set if it looks like a verb or an adverb, which say less than nouns.
	Verbal bool
}

// Count is a word and how often it occurs.
type Count struct {
	Word  string
	Count int
}

// checkEvery is the number of sentences between two checks of the context.
const checkEvery = 256

// Extract returns the terms of sentences in order of appearance. It leaves out stop words, words without a
// letter, and single letters. It keeps a single Han character only if nothing stands next to it.
func Extract(ctx context.Context, sentences []segment.Sentence, l language.Language) ([]Term, error) {
	learnt, err := learn(ctx, sentences)
	if err != nil {
		return nil, err
	}
	var terms []Term
	stems := make(map[string]string) // a text repeats its words: stem each once
	for i, s := range sentences {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		title, first := isTitle(s.Text), true
		for piece := range pieces(contact.Blank(s.Text)) {
			opens := first
			first = false
			if piece.han {
				words := han.Cut(piece.text, learnt)
				for j, word := range words {
					if !language.IsStopword(word, l) && (isLong(word) || lonely(words, j, l)) {
						terms = append(terms, Term{Surface: word, Form: word, Key: word, Sentence: i})
					}
				}
				continue
			}
			form := language.Fold(piece.text)
			if utf8.RuneCountInString(form) < 2 || !strings.ContainsFunc(form, unicode.IsLetter) || language.IsStopword(form, l) || segment.IsAbbreviation(form) {
				continue
			}
			key, ok := stems[form]
			if !ok {
				key = language.Stem(form, l)
				stems[form] = key
			}
			initial, _ := utf8.DecodeRuneInString(piece.text)
			terms = append(terms, Term{
				Surface: piece.text, Form: form, Key: key, Sentence: i,
				Named: unicode.IsUpper(initial) && !opens && !title, Verbal: language.IsVerbal(form, l),
			})
		}
	}
	return terms, nil
}

// isTitle reports whether most words begin with a capital, as in a heading, or are in capitals.
func isTitle(sentence string) bool {
	const few, most = 3, 0.6
	capital, all := 0, 0
	for w := range segment.Words(sentence) {
		first, _ := utf8.DecodeRuneInString(w.Text)
		if unicode.IsLetter(first) {
			all++
		}
		if unicode.IsUpper(first) {
			capital++
		}
	}
	return all > few && float64(capital) > most*float64(all)
}

// isLong reports whether word has more than one character.
func isLong(word string) bool {
	_, n := utf8.DecodeRuneInString(word)
	return len(word) > n
}

// lonely reports whether nothing but stop words stands beside words[i].
func lonely(words []string, i int, l language.Language) bool {
	return (i == 0 || language.IsStopword(words[i-1], l)) && (i+1 == len(words) || language.IsStopword(words[i+1], l))
}

// Words returns all words of sentences in order, as written.
func Words(ctx context.Context, sentences []segment.Sentence) ([]string, error) {
	learnt, err := learn(ctx, sentences)
	if err != nil {
		return nil, err
	}
	var words []string
	for i, s := range sentences {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for piece := range pieces(s.Text) {
			if piece.han {
				words = append(words, han.Cut(piece.text, learnt)...)
			} else {
				words = append(words, piece.text)
			}
		}
	}
	return words, nil
}

// Top counts the forms of terms and returns the n most frequent, most frequent first, equal ones in order
// of appearance. Spelling chooses the form shown.
func Top(terms []Term, n int) []Count {
	index := make(map[string]int)
	var counts []Count
	var spellings []Spelling
	for _, t := range terms {
		i, ok := index[t.Form]
		if !ok {
			i = len(counts)
			index[t.Form] = i
			counts = append(counts, Count{Word: t.Form})
			spellings = append(spellings, Spelling{})
		}
		counts[i].Count++
		spellings[i].Add(t)
	}
	for i := range counts {
		counts[i].Word = spellings[i].Show()
	}
	slices.SortStableFunc(counts, func(a, b Count) int { return b.Count - a.Count })
	return counts[:min(n, len(counts))]
}

// Spelling counts how a word is written.
type Spelling struct {
	form, surface  string
	several, named bool
}

// Add counts one occurrence.
func (s *Spelling) Add(t Term) {
	switch {
	case s.form == "":
		s.form, s.surface = t.Form, t.Surface
	case s.surface != t.Surface:
		s.several = true
	}
	s.named = s.named || t.Named
}

// Show returns the form to show: as written, if the word is always written the same way and with a capital
// after its first letter ("MCP", "GraphQL") or as a name; otherwise its folded form.
func (s *Spelling) Show() string {
	if s.several || !strings.EqualFold(s.surface, s.form) {
		return s.form
	}
	if s.named {
		return s.surface
	}
	for i, r := range s.surface {
		if i > 0 && unicode.IsUpper(r) {
			return s.surface
		}
	}
	return s.form
}
