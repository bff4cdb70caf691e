package words

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed data/*.words
var files embed.FS

// Tag is the meaning of a word: a class and a name, such as {"act", "build"}.
type Tag struct{ Class, Name string }

// Hit is an entry of a list found in tokens[From:To].
type Hit struct {
	Tag
	From, To int
}

// Lexicon is the word list of one language, including the words common to all languages.
type Lexicon struct {
	exact  map[string][]*entry // by the first part
	prefix map[string][]*entry // by the first part, if it ends in "*"
	most   int                 // runes of the longest prefix
}

type entry struct {
	tag   Tag
	parts []part
}

type part struct {
	text   string
	prefix bool
}

func (p part) matches(word string) bool {
	return word == p.text || p.prefix && strings.HasPrefix(word, p.text)
}

// minPrefix is the shortest prefix, in runes; shorter ones match by accident.
const minPrefix = 3

var lexicons = sync.OnceValue(func() map[Language]*Lexicon {
	all := map[Language]*Lexicon{}
	for _, l := range Languages {
		x := &Lexicon{exact: map[string][]*entry{}, prefix: map[string][]*entry{}}
		for _, name := range []string{"any", string(l)} {
			data, err := files.ReadFile("data/" + name + ".words")
			if err == nil {
				err = x.read(string(data), l)
			}
			if err != nil {
				panic(fmt.Sprintf("word list %s: %v", name, err)) // embedded and tested: cannot fail in a built program
			}
		}
		all[l] = x
	}
	return all
})

// For returns the word list of a language.
func For(l Language) *Lexicon { return lexicons()[l] }

// read adds lines "class name: entry entry …". An entry's words are joined by "_", and a "*" at the end of
// a word stands for any ending. An act in the infinitive also stands for its imperatives.
func (x *Lexicon) read(data string, l Language) error {
	for line := range strings.Lines(data) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		head, list, ok := strings.Cut(line, ": ")
		class, name, named := strings.Cut(head, " ")
		if !ok || !named {
			return fmt.Errorf("the line %q has no class and name", line)
		}
		for word := range strings.FieldsSeq(list) {
			e := &entry{tag: Tag{class, name}}
			for p := range strings.SplitSeq(word, "_") {
				stem, prefix := strings.CutSuffix(p, "*")
				tokens := Cut(stem)
				for i, t := range tokens {
					e.parts = append(e.parts, part{t.Text, prefix && i == len(tokens)-1})
				}
			}
			if len(e.parts) == 0 {
				return fmt.Errorf("the entry %q of %q has no word", word, head)
			}
			first := e.parts[0]
			n := utf8.RuneCountInString(first.text)
			if !first.prefix {
				x.exact[first.text] = append(x.exact[first.text], e)
				if class == "act" {
					for _, order := range orders(first.text, l) {
						x.exact[order] = append(x.exact[order], e)
					}
				}
				continue
			}
			if n < minPrefix {
				return fmt.Errorf("the prefix %q of %q is too short", word, head)
			}
			x.prefix[first.text] = append(x.prefix[first.text], e)
			x.most = max(x.most, n)
		}
	}
	return nil
}

// Find returns the meanings of tokens, in order. If entries of one class overlap, the first and longest
// counts.
func (x *Lexicon) Find(tokens []Token) []Hit {
	var out []Hit
	done := map[string]int{} // class → first token not yet taken
	for i := range tokens {
		best := map[string]Hit{}
		x.at(tokens, i, func(e *entry) {
			to := i + len(e.parts)
			if i < done[e.tag.Class] || best[e.tag.Class].To >= to {
				return
			}
			best[e.tag.Class] = Hit{e.tag, i, to}
		})
		if len(best) == 0 {
			continue
		}
		from := len(out)
		for class, h := range best {
			out = append(out, h)
			done[class] = h.To
		}
		slices.SortFunc(out[from:], func(a, b Hit) int { return strings.Compare(a.Class, b.Class) })
	}
	return out
}

// at calls found with each entry that matches at tokens[i].
func (x *Lexicon) at(tokens []Token, i int, found func(*entry)) {
	word := tokens[i].Text
	try := func(entries []*entry) {
		for _, e := range entries {
			if follows(e.parts[1:], tokens[i+1:]) {
				found(e)
			}
		}
	}
	try(x.exact[word])
	if tokens[i].Kind != Word {
		return
	}
	n := 0
	for end := range word {
		if n > x.most {
			return
		}
		if n >= minPrefix {
			try(x.prefix[word[:end]])
		}
		n++
	}
	if n >= minPrefix && n <= x.most {
		try(x.prefix[word])
	}
}

func follows(parts []part, tokens []Token) bool {
	if len(parts) > len(tokens) {
		return false
	}
	for i, p := range parts {
		if !p.matches(tokens[i].Text) {
			return false
		}
	}
	return true
}
