// Package entity finds the technologies, concepts and processes that a text mentions.
// Start at Extract.
//
// The method, in order of precedence at each place of the text:
//
//  1. A gazetteer of names in English, Polish, Russian and Chinese, compared
//     by stem so that inflected forms are found; the longest name wins.
//  2. Two or more capitalised words in a row, as in "Acme Cloud Broker", are
//     a technology if there is a sign of it: a word that the gazetteer lists as
//     a "head" ("Broker"); an acronym, a digit or an inner capital among the words;
//     or Latin letters in a sentence of another script. Names of people and places
//     have none of these. A function word that only opens the sentence is not part
//     of the name, and headings in Title Case are skipped.
//  3. Acronyms of 2 to 6 capitals ("MCP", "TCP/IP") and words with inner
//     capitals ("WebSocket") are technologies, unless the whole sentence is in
//     capitals, or a number makes them a label ("FR-1").
//
// URLs and e-mail addresses are skipped.
//
// Names that the gazetteer marks as everyday words ("library", "client") count
// only if the text has another known name; a technology ("python") also counts
// where it is written as a name. Rules 2 and 3 know nothing about the world: acronyms
// of any kind come out as technologies unless the gazetteer lists them in its
// category "ignore".
package entity

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/contact"
	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// Entities lists what was found, each as first written in the text, in order of first appearance and
// without repeats. The lists are never nil.
type Entities struct {
	Technologies, Concepts, Processes []string
}

// Extract finds the entities of text by gazetteer g. The caller gives the text's language and sentences.
// Time is linear in the text.
func Extract(ctx context.Context, sentences []segment.Sentence, l language.Language, g *Gazetteer) (Entities, error) {
	x := extractor{
		gazetteer: g,
		language:  l,
		found:     Entities{Technologies: []string{}, Concepts: []string{}, Processes: []string{}},
		everyday:  make(map[string]bool),
		entities:  make(map[int]bool),
		written:   make(map[string]bool),
		keys:      make(map[string][]string),
	}
	for i, s := range sentences {
		if i%256 == 0 && ctx.Err() != nil {
			return Entities{}, ctx.Err()
		}
		x.sentence(contact.Blank(s.Text))
	}
	if !x.strong && len(x.found.Technologies) < 2 { // python and java are two languages
		weak := func(s string) bool { return x.everyday[s] }
		x.found.Concepts = slices.DeleteFunc(x.found.Concepts, weak)
		x.found.Processes = slices.DeleteFunc(x.found.Processes, weak)
		x.found.Technologies = slices.DeleteFunc(x.found.Technologies, weak)
	}
	return x.found, nil
}

// token is a word in its sentence.
type token struct {
	text       string
	start, end int
	keys       []string
	opens      bool // first word of the sentence
	joined     bool // only a space, a hyphen or nothing between it and the word before
	linked     bool // only "-" or "/" between it and the word before
}

type extractor struct {
	gazetteer *Gazetteer
	language  language.Language
	found     Entities
	everyday  map[string]bool // finds that count only beside a stronger one
	strong    bool            // there is a stronger one
	entities  map[int]bool    // entities of the gazetteer already found
	written   map[string]bool // names found by rule, folded
	keys      map[string][]string
}

// maxSentence is the largest number of words treated as one sentence, so that a text without full stops
// costs no more than another.
const maxSentence = 2000

func (x *extractor) sentence(text string) {
	var words []token
	for w := range segment.Words(text) {
		words = append(words, x.token(text, w, words))
	}
	for len(words) > maxSentence {
		x.words(text, words[:maxSentence])
		words = words[maxSentence:]
	}
	x.words(text, words)
}

func (x *extractor) token(text string, w segment.Word, before []token) token {
	t := token{text: w.Text, start: w.Start, end: w.End(), opens: len(before) == 0}
	if len(before) > 0 {
		gap := text[before[len(before)-1].end:w.Start]
		t.linked = gap == "-" || gap == "/"
		t.joined = gap == "-" || strings.Trim(gap, " \n\u00A0") == "" && len(gap) <= 2
	}
	known, ok := x.keys[w.Text]
	if !ok {
		known = keys(w.Text, x.language)
		x.keys[w.Text] = known
	}
	t.keys = known
	return t
}

func (x *extractor) words(text string, words []token) {
	titles, shouts := styles(words)
	foreign := mostlyNotLatin(words)
	for i := 0; i < len(words); {
		known, n := x.gazetteer.match(text, words[i:])
		if n > 0 && known.exact != "" && words[i].opens && !x.named(text, words[i+n:]) {
			n = 0
		}
		run := 0
		if !titles {
			run = capitalised(words[i:])
			if end := i + run; run > 0 && end < len(words) && words[end].linked && isLabel(words[end-1:end+1]) {
				run-- // "Ticket FR-77"
			}
			if run < 2 {
				run = 0
			}
			if run > 0 && !x.gazetteer.technical(words[i:i+run], foreign) {
				run = 0
			}
		}
		// "Using Docker Compose": "Using" is not part of the known name.
		if run > n && words[i].opens && run >= 2 {
			if next, m := x.gazetteer.match(text, words[i+1:]); m == run-1 && next.category == technology {
				run = 0
			}
		}
		switch {
		case n > 0 && n >= run:
			known.everyday = known.everyday && !(known.category == technology && x.isName(words, i, n))
			x.addKnown(known.shown(text[words[i].start:words[i+n-1].end]+known.tail), known)
			i += n
		case run >= 2:
			x.addWritten(text[words[i].start:words[i+run-1].end])
			i += run
		default:
			n = 1
			if !shouts {
				m := acronym(words[i:])
				if m > 0 {
					n = m
				}
				if m > 0 && !isLabel(words[i:i+m]) {
					x.addWritten(text[words[i].start:words[i+m-1].end])
				}
			}
			i += n
		}
	}
}

// named reports whether words contain a technology of the gazetteer. Then a name that opens the sentence
// and is also a common word ("React and Vue are …") counts as a technology, too.
func (x *extractor) named(text string, words []token) bool {
	for i := range words {
		if other, n := x.gazetteer.match(text, words[i:]); n > 0 && other.category == technology {
			return true
		}
	}
	return false
}

// isName reports whether the everyday word at i is written as a name: with a capital inside a sentence;
// alone; or in any way if the writer uses no capitals. In English a capital at the beginning is enough,
// because other nouns have an article.
func (x *extractor) isName(words []token, i, n int) bool {
	first, _ := utf8.DecodeRuneInString(words[0].text)
	switch {
	case !isCapitalised(words[i].text):
		return unicode.IsLower(first)
	case words[i].opens:
		return len(words) == n || x.language != language.Polish && x.language != language.Russian
	}
	return true
}

func (x *extractor) addKnown(surface string, n name) {
	if x.entities[n.entity] || x.written[language.Fold(surface)] {
		x.strong = x.strong || !n.everyday && n.category != ignored // written as a name by now
		return
	}
	x.entities[n.entity] = true
	if n.everyday {
		x.everyday[surface] = true
	} else if n.category != ignored {
		x.strong = true
	}
	switch n.category {
	case technology:
		x.written[language.Fold(surface)] = true
		x.found.Technologies = append(x.found.Technologies, surface)
	case concept:
		x.found.Concepts = append(x.found.Concepts, surface)
	case process:
		x.found.Processes = append(x.found.Processes, surface)
	}
}

func (x *extractor) addWritten(surface string) {
	surface = strings.Join(strings.FieldsFunc(surface, unicode.IsSpace), " ")
	if folded := language.Fold(surface); !x.written[folded] {
		x.written[folded] = true
		x.strong = true
		x.found.Technologies = append(x.found.Technologies, surface)
	}
}

// styles reports whether the words are a heading in Title Case or in capitals,
// so that a capital says nothing, and whether they are in capitals.
func styles(words []token) (titles, shouts bool) {
	const few = 4 // a name that stands alone may have this many words
	capital, upper, letters := 0, 0, 0
	for _, w := range words {
		if first, _ := utf8.DecodeRuneInString(w.text); !unicode.IsLetter(first) || segment.IsHan(w.text) {
			continue
		}
		letters++
		switch {
		case w.text == strings.ToUpper(w.text):
			upper++
		case isCapitalised(w.text):
			capital++
		}
	}
	// Words in capitals are common everywhere and do not indicate a heading.
	shouts = letters > few && upper*4 >= letters*3
	return shouts || letters-upper > few && capital*4 >= (letters-upper)*3, shouts
}

// capitalised returns how many of the first words make up a capitalised name: 0 or at least 2.
func capitalised(words []token) int {
	n := 0
	for n < len(words) && isCapitalised(words[n].text) && !isRoman(words[n].text) && (n == 0 || words[n].joined && !words[n].linked) {
		n++
	}
	if n < 2 || words[0].opens && (isFunctionWord(words[0].text) || isLatin(words[0].text) != isLatin(words[1].text)) {
		return 0
	}
	return n
}

// technical reports whether a capitalised name is likely to be a technology. foreign is set if the
// sentence is in a script other than Latin.
func (g *Gazetteer) technical(words []token, foreign bool) bool {
	latin := true
	for _, w := range words {
		if isAcronym(w.text) || hasInnerCapitals(w.text) || strings.ContainsFunc(w.text, unicode.IsDigit) || slices.ContainsFunc(w.keys, func(k string) bool { return g.heads[k] }) {
			return true
		}
		latin = latin && isLatin(w.text)
	}
	return foreign && latin
}

// mostlyNotLatin reports whether at least half of the words are in a script other than Latin.
func mostlyNotLatin(words []token) bool {
	n := 0
	for _, w := range words {
		if !isLatin(w.text) {
			n++
		}
	}
	return n*2 >= len(words)
}

func isFunctionWord(word string) bool {
	word = language.Fold(word)
	return language.IsStopword(word, language.Unknown)
}

// isCapitalised reports whether word starts with a capital and has more than
// one letter.
func isCapitalised(word string) bool {
	first, n := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first) && len(word) > n
}

// acronym returns how many of the first words make up an acronym or a word with inner capitals, including
// the words that "-" or "/" links to it.
func acronym(words []token) int {
	if !isAcronym(words[0].text) && !hasInnerCapitals(words[0].text) {
		return 0
	}
	n := 1
	for n < len(words) && words[n].linked && (isAcronym(words[n].text) || isVersion(words[n].text)) {
		n++
	}
	return n
}

// isLabel reports whether words are an assigned number such as "FR-1" or "JIRA-204": capitals and digits.
// Names like "UTF-8" are in the gazetteer.
func isLabel(words []token) bool {
	return len(words) == 2 && isAcronym(words[0].text) && strings.Trim(words[1].text, "0123456789") == ""
}

// isAcronym reports whether word is 2 to 6 capitals and digits, at least two
// of them capitals, and not a Roman numeral.
func isAcronym(word string) bool {
	letters, all := 0, 0
	for _, r := range word {
		switch {
		case unicode.IsUpper(r):
			letters++
		case !unicode.IsDigit(r):
			return false
		}
		all++
	}
	return letters >= 2 && all <= 6 && !isRoman(word)
}

func isRoman(word string) bool { return strings.Trim(word, "IVX") == "" }

// isVersion reports whether word starts with a digit, like the 8 of "UTF-8".
func isVersion(word string) bool { return word[0] >= '0' && word[0] <= '9' && len(word) <= 4 }

// hasInnerCapitals reports whether word is like "GraphQL" or "WebSocket": it starts with a capital, which
// identifiers like "analyzeText" do not, and has a lower-case letter and a later capital. "McDonald" does
// not count.
func hasInnerCapitals(word string) bool {
	if !isCapitalised(word) || strings.HasPrefix(word, "Mc") || strings.HasPrefix(word, "Mac") || strings.ContainsAny(word, "'’") {
		return false
	}
	lower, inner := false, false
	for i, r := range word {
		lower = lower || unicode.IsLower(r)
		inner = inner || i > 0 && unicode.IsUpper(r)
	}
	return lower && inner
}
