package entity

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

//go:embed data/gazetteer.tsv
var gazetteerFile []byte

// Default returns the gazetteer of this package, data/gazetteer.tsv, read on first use.
var Default = sync.OnceValue(func() *Gazetteer {
	g, err := Parse(bytes.NewReader(gazetteerFile))
	if err != nil {
		panic(err) // embedded and tested: cannot fail in a built program
	}
	return g
})

// Gazetteer is a list of known names.
type Gazetteer struct {
	// names by the key of their first word, longest first.
	names map[string][]name
	// heads are the keys of words that make a capitalised name a technology.
	heads map[string]bool
	size  int // entities read
}

// category of an entity.
type category int

const (
	technology category = iota
	concept
	process
	ignored
	head
)

var categories = map[string]category{"technology": technology, "concept": concept, "process": process, "ignore": ignored, "head": head}

// name is one form of an entity.
type name struct {
	entity   int // all forms of an entity share this number
	category category
	keys     []string // of its words
	tail     string   // characters after the last word, as in "C++"
	exact    string   // required spelling, "" for any
	everyday bool     // also an everyday word
	written  string   // as written in the gazetteer
	alike    bool     // spelt the same in every language, except for endings
}

// exactly stands in place of a language for names that have only one spelling.
const exactly = "!"

// Parse reads a gazetteer in the format described in data/gazetteer.tsv.
func Parse(r io.Reader) (*Gazetteer, error) {
	g := &Gazetteer{names: make(map[string][]name), heads: make(map[string]bool)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("gazetteer line %d: the line has %d fields; give 3, separated by tabs", n, len(fields))
		}
		c, ok := categories[fields[0]]
		if !ok {
			return nil, fmt.Errorf("gazetteer line %d: unknown category %q", n, fields[0])
		}
		lang, everyday := strings.CutSuffix(fields[1], "?")
		if !slices.Contains([]string{"*", exactly, "en", "pl", "ru", "zh"}, lang) {
			return nil, fmt.Errorf("gazetteer line %d: unknown language %q", n, fields[1])
		}
		for forms := range strings.SplitSeq(fields[2], ";") {
			g.size++
			for form := range strings.SplitSeq(forms, "|") {
				if err := g.add(c, lang, form, everyday); err != nil {
					return nil, fmt.Errorf("gazetteer line %d: %w", n, err)
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("gazetteer: %w", err)
	}
	for _, list := range g.names {
		slices.SortStableFunc(list, func(a, b name) int { return len(b.keys) + len(b.tail) - len(a.keys) - len(a.tail) })
	}
	return g, nil
}

// Len returns the number of entities in the gazetteer.
func (g *Gazetteer) Len() int { return g.size }

func (g *Gazetteer) add(c category, lang, form string, everyday bool) error {
	n := name{entity: g.size, category: c, everyday: everyday, written: form, alike: lang == "*"}
	end := 0
	for w := range segment.Words(form) {
		n.keys = append(n.keys, key(lang, w.Text))
		end = w.End()
	}
	if len(n.keys) == 0 {
		return fmt.Errorf("%q has no words; give at least one letter or digit", form)
	}
	n.tail = form[end:]
	if lang == exactly {
		n.exact = form
	}
	if c == head {
		g.heads[n.keys[0]] = true
		return nil
	}
	g.names[n.keys[0]] = append(g.names[n.keys[0]], n)
	return nil
}

// key returns the lookup key of a word of a name in lang. Only words in that language's script are
// inflected; others are spelt the same everywhere.
func key(lang, word string) string {
	word = language.Fold(word)
	latin := isLatin(word)
	switch {
	case latin && lang == "en":
		return "en:" + language.Singular(word) // "processing" is not a form of "process"
	case latin && lang == "pl":
		return "pl:" + language.Stem(word, language.Polish)
	case !latin:
		return "ru:" + language.Stem(word, language.Russian) // leaves Han as it is
	}
	return "*:" + word
}

// keys returns all lookup keys that a word of a text may have, most exact first.
func keys(word string, l language.Language) []string {
	if !isLatin(word) {
		return []string{key("ru", word)}
	}
	all := []string{key("*", word), key("en", word)}
	if l != language.Polish || !language.IsPolishInfinitive(word) { // "zapytać" is not a form of "zapytanie"
		all = append(all, key("pl", word))
	}
	if first, _ := utf8.DecodeRuneInString(word); l == language.Polish && unicode.IsUpper(first) {
		for _, base := range language.PolishNames(language.Fold(word)) {
			all = append(all, "*:"+base)
		}
	}
	return all
}

func isLatin(word string) bool {
	for _, r := range word {
		if unicode.IsLetter(r) {
			return unicode.Is(unicode.Latin, r)
		}
	}
	return true
}

// match returns the longest name that starts at the first of words, and its number of words.
func (g *Gazetteer) match(text string, words []token) (best name, n int) {
	for _, k := range words[0].keys {
		for _, candidate := range g.names[k] {
			if len(candidate.keys) <= n-1 {
				break // sorted: the rest are shorter
			}
			length := len(candidate.keys)
			if length > len(words) || !candidate.fits(text, words[:length]) {
				continue
			}
			if length > n || length == n && len(candidate.tail) > len(best.tail) {
				best, n = candidate, length
			}
		}
	}
	return best, n
}

func (n *name) fits(text string, words []token) bool {
	for i, w := range words {
		if i > 0 && !(w.joined && slices.Contains(w.keys, n.keys[i])) {
			return false
		}
	}
	first, last := words[0], words[len(words)-1]
	if !strings.HasPrefix(text[last.end:], n.tail) {
		return false
	}
	return n.exact == "" || text[first.start:last.end] == n.exact || first.inflects(n.exact)
}

// inflects reports whether a word is a Polish form of a name ("w Ruście"). Forms of short names are
// excluded, because they are other words as well.
func (t *token) inflects(name string) bool {
	return len(name) > 3 && !t.opens && isCapitalised(t.text) && len(t.keys) > 3 && slices.Contains(t.keys[3:], "*:"+language.Fold(name))
}

// shown returns the name to show for surface, the text's spelling: surface itself, or the gazetteer's
// spelling if only the text inflects the name ("Dockera").
func (n *name) shown(surface string) string {
	if (n.alike || n.exact != "") && len(n.keys) == 1 && n.tail == "" && language.Fold(surface) != language.Fold(n.written) {
		return n.written
	}
	return surface
}
