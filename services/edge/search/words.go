package search

import (
	_ "embed"
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

// dictionary is words.txt: ideas by words.
type dictionary struct {
	// stems are English, whole are words as they are, begins what words begin with.
	stems, whole, begins map[string][]string
	// han are Chinese words, of at most longest characters.
	han     map[string][]string
	longest int
}

var known = sync.OnceValue(func() *dictionary {
	d := &dictionary{stems: map[string][]string{}, whole: map[string][]string{}, begins: map[string][]string{}, han: map[string][]string{}}
	for line := range strings.Lines(list) {
		columns := strings.Split(strings.TrimSpace(line), "|")
		if strings.HasPrefix(line, "#") || len(columns) != 4 {
			continue
		}
		var name string
		for i, column := range columns {
			for _, word := range strings.Split(column, ",") {
				if word = strings.TrimSpace(word); word == "" {
					continue
				}
				if name == "" {
					name = idea + word
				}
				into, key := d.begins, word
				switch {
				case i == 0:
					into, key = d.stems, stem(word)
				case i == 3:
					into, d.longest = d.han, max(d.longest, utf8.RuneCountInString(word))
				case strings.HasSuffix(word, "="):
					into, key = d.whole, strings.TrimSuffix(word, "=")
				}
				into[key] = append(into[key], name)
			}
		}
	}
	return d
})

// none are words that say nothing of what is looked for.
var none = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(`a an the of in on at to for from by with and or is are was were be been it its this that these those my our your their his her i me we you he she
		they them us into out up as if do does did can could will would should please want need what s d
		w we z ze na do od po u o i a oraz lub jest są był była były mój moja moje mojego ten ta to te tym tego tej dla przez przy jak co się nie czy mi mam
		в во на с со к ко у о об от до по за из для и или а не что это этот эта эти мой моя моё мои как мне мы вы он она они был была были есть идущ`) {
		all[word] = true
	}
	return all
}()

// terms calls yield with each word of a text, as the terms that may stand for it: the
// word's stem first, then ideas. What was found out of a word is in seen, which may be
// nil.
func terms(text string, seen map[string][]string, yield func(alternatives []string)) {
	d := known()
	word := func(from, to int, raw []rune) {
		w := strings.ToLower(string(raw[from:to]))
		if none[w] {
			return
		}
		all, known := seen[w]
		if !known {
			all = append([]string{stem(w)}, d.ideas(w)...)
			if seen != nil {
				seen[w] = all
			}
		}
		yield(all)
	}
	raw := []rune(text)
	for i := 0; i < len(raw); {
		switch {
		case unicode.Is(unicode.Han, raw[i]):
			end := i
			for end < len(raw) && unicode.Is(unicode.Han, raw[end]) {
				end++
			}
			d.chinese(raw[i:end], yield)
			i = end
		case unicode.IsLetter(raw[i]) || unicode.IsDigit(raw[i]):
			end := i + 1
			for end < len(raw) && !unicode.Is(unicode.Han, raw[end]) && (unicode.IsLetter(raw[end]) || unicode.IsDigit(raw[end]) || unicode.Is(unicode.Mn, raw[end])) &&
				!(unicode.IsUpper(raw[end]) && unicode.IsLower(raw[end-1])) { // camelCase
				end++
			}
			word(i, end, raw)
			i = end
		default:
			i++
		}
	}
}

// ideas are those of a word.
func (d *dictionary) ideas(word string) []string {
	if all := d.stems[stem(word)]; all != nil {
		return all
	}
	if all := d.whole[word]; all != nil {
		return all
	}
	for end := len(word); end > 0; {
		if all := d.begins[word[:end]]; all != nil && utf8.RuneCountInString(word[:end]) >= 3 {
			return all
		}
		_, size := utf8.DecodeLastRuneInString(word[:end])
		end -= size
	}
	return nil
}

// chinese cuts characters into the longest words that are known; of others, each two
// neighbours are a term.
func (d *dictionary) chinese(run []rune, yield func([]string)) {
	var room [8]string
	unknown := func(part []rune) {
		for i := 0; i+1 < len(part); i++ {
			yield(append(room[:0], string(part[i:i+2])))
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
		yield(append(append(room[:0], w), d.han[w]...))
		i += size
		from = i
	}
	unknown(run[from:])
}

// stem is what the forms of a word have in common.
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
