package search

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/russian"
)

//go:embed words.txt
var list string

// idea marks a term that stands for all words of one meaning, in any language.
const idea = "#"

// term is a possible meaning of a word, with its certainty in hundredths.
type term struct {
	name   string
	weight int32
}

// Weights of a word as an idea, in hundredths. The first words of a line are its subject, those that
// follow are near to it. A word of a phrase keeps its own ideas, and a word that begins like two known
// words also has the ideas of the shorter one.
const (
	itself, near, shorter, inPhrase = 100, 85, 70, 50
	first                           = 4 // words of a language in a line

	leastBeginning = 3 // least letters of a beginning in Polish or Russian
	between        = 3 // words between a verb and its particle
)

// phrase is several words with one meaning: the beginnings, or the stems, of the words after the first.
type phrase struct {
	rest  []string
	stems bool
	ideas []term
}

// dictionary is words.txt: ideas by words.
type dictionary struct {
	// stems are English stems, whole are exact words, begins are beginnings of words.
	english, stems, whole, begins map[string][]term
	// phrases by the beginning, or the stem, of their first words.
	phrases map[string][]phrase
	// han are Chinese words, of at most longest characters.
	han     map[string][]term
	longest int
}

var known = sync.OnceValue(func() *dictionary { return parse(list) })

// parse reads a dictionary: one idea on each line, with the words of four languages separated by bars. It
// skips other lines.
func parse(text string) *dictionary {
	d := &dictionary{english: map[string][]term{}, stems: map[string][]term{}, whole: map[string][]term{}, begins: map[string][]term{}, phrases: map[string][]phrase{}, han: map[string][]term{}}
	named := map[string]int{}
	for line := range strings.Lines(text) {
		columns := strings.Split(strings.TrimSpace(line), "|")
		if strings.HasPrefix(line, "#") || len(columns) != 4 {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(columns[0]), ",")
		name = strings.TrimSpace(name)
		if named[name]++; named[name] > 1 { // each line is a meaning of its own, even if another begins with the same word
			name += strconv.Itoa(named[name])
		}
		for i, column := range columns {
			n := 0
			for word := range strings.SplitSeq(column, ",") {
				if word = strings.Join(strings.FieldsFunc(fold(word), parts), " "); word != "" {
					means := term{idea + name, itself}
					if n++; n > first {
						means.weight = near
					}
					d.learn(i, word, means)
				}
			}
		}
	}
	return d
}

// parts reports whether r separates the words of a phrase.
func parts(r rune) bool { return unicode.IsSpace(r) || r == '\'' || r == '-' }

// learn adds a meaning to a word of a column.
func (d *dictionary) learn(column int, word string, means term) {
	into, key := d.begins, word
	switch parts := strings.Fields(word); {
	case column == 3:
		into, d.longest = d.han, max(d.longest, utf8.RuneCountInString(word))
	case len(parts) > 1:
		english := column == 0
		if english {
			for i, part := range parts {
				parts[i] = stem(part)
			}
		}
		d.phrases[parts[0]] = append(d.phrases[parts[0]], phrase{parts[1:], english, []term{means}})
		return
	case column == 0:
		into, key = d.stems, stem(word)
	case strings.HasSuffix(word, "="):
		into, key = d.whole, strings.TrimSuffix(word, "=")
	}
	add(into, key, means)
	if column == 0 {
		add(d.english, word, means)
	}
}

func add(into map[string][]term, key string, means term) {
	for i, known := range into[key] {
		if known.name == means.name {
			into[key][i].weight = max(known.weight, means.weight)
			return
		}
	}
	into[key] = append(into[key], means)
}

// none lists words without meaning for a search.
var none = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(`a an the of in on at to for from by with and or is are was were be been it its this that these those my our your their his her i me we you he she
		they them us into out up as if do does did can could will would should please want need what about how when any more much most own yet still ever already always only also which while because whole everything s d have has had am not no so somebody someone anybody everybody something but than then too very there here now just some up down off out over back away in
		w we z ze na do od po u o i a oraz lub jest sa byl byla byly moj moja moje mojego ten ta to te tym tego tej dla przez przy jak co sie nie czy mi mam mnie mu jej nam nasz nasza nasze naszym naszego prosze chce zeby aby
		в во на с со к ко у о об от до по за из для и или а не что это этот эта эти мой моя мое мои как мне мы вы он она они был была были есть идущ меня нам наш наша наше нашем нашего пожалуйста чтобы`) {
		all[word] = true
	}
	return all
}()

// fold removes the diacritics that people often omit.
func fold(word string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case 'ą':
			return 'a'
		case 'ć':
			return 'c'
		case 'ę':
			return 'e'
		case 'ł':
			return 'l'
		case 'ń':
			return 'n'
		case 'ó':
			return 'o'
		case 'ś':
			return 's'
		case 'ź', 'ż':
			return 'z'
		case 'ё':
			return 'е'
		}
		return r
	}, strings.ToLower(word))
}

// word is the analysis of a word: its terms, its stem first, and the phrases that it may begin.
type word struct {
	terms   []term
	phrases []phrase
}

// terms calls yield with the terms of each word of a text. seen caches the analysis of words.
func terms(text string, seen map[string]*word, yield func(alternatives []term)) {
	d := known()
	var words []string
	raw := []rune(text)
	for i := 0; i < len(raw); {
		end := i + 1
		switch {
		case unicode.Is(unicode.Han, raw[i]):
			for end < len(raw) && unicode.Is(unicode.Han, raw[end]) {
				end++
			}
			d.said(words, seen, yield)
			words = words[:0]
			d.chinese(raw[i:end], yield)
		case unicode.IsLetter(raw[i]) || unicode.IsDigit(raw[i]):
			for end < len(raw) && !unicode.Is(unicode.Han, raw[end]) && (unicode.IsLetter(raw[end]) || unicode.IsDigit(raw[end]) || unicode.Is(unicode.Mn, raw[end])) &&
				!(unicode.IsUpper(raw[end]) && unicode.IsLower(raw[end-1])) { // camelCase
				end++
			}
			words = append(words, fold(string(raw[i:end])))
		}
		i = end
	}
	d.said(words, seen, yield)
}

// look returns the dictionary's knowledge of a word.
func (d *dictionary) look(said string, seen map[string]*word) *word {
	w := seen[said]
	if w == nil {
		root := stem(said)
		w = &word{terms: append([]term{{root, itself}}, d.ideas(said, root)...)}
		for _, p := range d.phrases[root] {
			if p.stems {
				w.phrases = append(w.phrases, p)
			}
		}
		for end := range min(len(said), maxWord) {
			for _, p := range d.phrases[said[:end+1]] {
				if !p.stems {
					w.phrases = append(w.phrases, p)
				}
			}
		}
		seen[said] = w
	}
	return w
}

// said yields the terms of a sequence of words: the terms of known phrases, and of each
// other word.
func (d *dictionary) said(words []string, seen map[string]*word, yield func([]term)) {
	for i := 0; i < len(words); {
		ideas, n := d.phrase(words[i:], seen)
		if n > 0 {
			all := append([]term(nil), ideas...)
			for _, part := range words[i : i+n] {
				if !none[part] {
					own := d.look(part, seen).terms
					all = append(all, own[0])
					for _, t := range own[1:] {
						all = append(all, term{t.name, t.weight * inPhrase / itself})
					}
				}
			}
			yield(all)
			i += n
			continue
		}
		if ideas := d.parted(words[i:], seen); ideas != nil {
			yield(ideas)
		}
		if !none[words[i]] {
			yield(d.look(words[i], seen).terms)
		}
		i++
	}
}

// phrase returns the meaning of the longest known phrase at the beginning of words, and
// its number of words; 0 without a known phrase.
func (d *dictionary) phrase(words []string, seen map[string]*word) (ideas []term, n int) {
	if len(words) < 2 {
		return nil, 0
	}
	for _, p := range d.look(words[0], seen).phrases {
		if size := len(p.rest) + 1; size <= len(words) && size >= n && d.follows(words[1:], p, seen) {
			if size > n {
				ideas, n = nil, size
			}
			ideas = append(ideas, p.ideas...)
		}
	}
	return ideas, n
}

// follows reports whether words begin with the rest of a phrase.
func (d *dictionary) follows(words []string, p phrase, seen map[string]*word) bool {
	for i, part := range p.rest {
		if p.stems && d.look(words[i], seen).terms[0].name != part || !p.stems && !strings.HasPrefix(words[i], part) {
			return false
		}
	}
	return true
}

// parted returns the meaning of a verb with a particle some words later: turn it down.
func (d *dictionary) parted(words []string, seen map[string]*word) []term {
	if len(words) < 3 {
		return nil
	}
	for _, p := range d.look(words[0], seen).phrases {
		if p.stems && len(p.rest) == 1 && none[p.rest[0]] && slices.Contains(words[2:min(len(words), 2+between)], p.rest[0]) {
			return p.ideas
		}
	}
	return nil
}

// ideas returns the ideas of a word with this stem.
func (d *dictionary) ideas(word, root string) []term {
	stems, whole := d.english[word], d.whole[word]
	if stems == nil { // "customers" and "customs" differ, though both have the stem "custom"
		stems = d.stems[root]
	}
	if stems != nil || whole != nil {
		return append(stems[:len(stems):len(stems)], whole...)
	}
	var all []term
	longest := 0
	for end := min(len(word), maxWord); end > 0; { // no word of the dictionary is longer
		n := utf8.RuneCountInString(word[:end])
		if n < leastBeginning || longest > 0 && n < longest-2 {
			break
		}
		if some := d.begins[word[:end]]; some != nil && longest == 0 {
			all, longest = some[:len(some):len(some)], n
		} else {
			for _, t := range some {
				all = append(all, term{t.name, t.weight * shorter / itself})
			}
		}
		_, size := utf8.DecodeLastRuneInString(word[:end])
		end -= size
	}
	return all
}

// chinese cuts characters into the longest known words; of other characters, each two neighbours are a
// term.
func (d *dictionary) chinese(run []rune, yield func([]term)) {
	var buf [8]term
	unknown := func(part []rune) {
		for i := 0; i+1 < len(part); i++ {
			yield(append(buf[:0], term{string(part[i : i+2]), itself}))
		}
	}
	from := 0
	for i := 0; i < len(run); {
		size := 0
		for n := min(d.longest, len(run)-i); n > 0; n-- {
			if d.han[string(run[i:i+n])] != nil {
				size = n
				break
			}
		}
		if size == 0 {
			i++
			continue
		}
		unknown(run[from:i])
		w := string(run[i : i+size])
		yield(append(append(buf[:0], term{w, itself}), d.han[w]...))
		i += size
		from = i
	}
	unknown(run[from:])
}

// stem returns the common part of the forms of a word.
func stem(word string) string {
	if len(word) < 3 {
		return word
	}
	env := snowballstem.NewEnv(word)
	switch first, _ := utf8.DecodeRuneInString(word); {
	case unicode.Is(unicode.Cyrillic, first):
		russian.Stem(env)
	default:
		english.Stem(env)
	}
	return env.Current()
}
