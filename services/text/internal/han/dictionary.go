// Package han cuts Chinese into words. It cuts a run of Han characters at the cheapest path through the
// words of a dictionary and of the text itself (maximum-probability segmentation, a Viterbi search): a
// word costs the negative logarithm of its frequency, and a character that is in no word costs much. The
// dictionary is small, some 7,600 frequent words, half of them written for this package; it is read on
// first use and takes about a megabyte. Traditional characters are looked up as their simplified ones.
// Start at Cut.
package han

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

var (
	//go:embed data/words.txt
	wordFile string
	//go:embed data/taiwan.txt
	taiwanFile string
	//go:embed data/traditional.txt
	traditionalFile string
	//go:embed data/frequent.txt
	frequentFile string
)

// maxWord is the longest word looked up, in characters.
const maxWord = 7

// dictionary maps words in simplified characters to their cost.
type dictionary struct {
	cost       map[string]float32
	simplified map[rune]rune
	// prefix holds the beginnings of words, so that a search ends early.
	prefix map[string]bool
}

var known = sync.OnceValue(func() *dictionary {
	d := &dictionary{cost: make(map[string]float32, 12000), simplified: make(map[rune]rune, 1000), prefix: make(map[string]bool, 12000)}
	for _, file := range []string{wordFile, taiwanFile, frequentFile} {
		d.read(file)
	}
	for line := range strings.Lines(traditionalFile) {
		if line[0] == '#' {
			continue
		}
		for pair := range strings.FieldsSeq(line) {
			from, n := utf8.DecodeRuneInString(pair)
			to, _ := utf8.DecodeRuneInString(pair[n:])
			d.simplified[from] = to
		}
	}
	return d
})

func (d *dictionary) read(file string) {
	cost := float32(0)
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if number, ok := strings.CutPrefix(line, "= "); ok {
			v, err := strconv.ParseFloat(number, 32)
			if err != nil {
				panic(err) // embedded and tested: cannot fail in a built program
			}
			cost = float32(v)
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if _, ok := d.cost[word]; ok {
				continue // the first place is the cheaper one
			}
			d.cost[word] = cost
			for i := range word {
				if i > 0 {
					d.prefix[word[:i]] = true
				}
			}
		}
	}
}

// simplify maps the characters of a run one to one.
func (d *dictionary) simplify(run string) string {
	return strings.Map(func(r rune) rune {
		if s, ok := d.simplified[r]; ok {
			return s
		}
		return r
	}, run)
}
