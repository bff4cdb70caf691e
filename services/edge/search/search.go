// Package search is an index of tools by their own texts: names, titles, descriptions and parameters. It
// ranks by BM25 over stems and over ideas; an idea is a meaning that a small dictionary gives to words of
// four languages. It needs no model, and gives the same order at every edge. Start at Index.Search.
package search

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits: bytes of all texts of one tool, bytes of a query, and the number of words looked up for a query.
const (
	maxText  = 8 << 10
	MaxQuery = 512
	maxWords = 32
)

// Weights of a word by its place, in hundredths.
const (
	inName        = 400
	inTitle       = 200
	inDescription = 100
	inParameter   = 10
)

// Parameters of BM25 and of the additions to it. They were chosen with the queries in testdata/known.txt.
const (
	k1, b = 1.2, 0.6
	// likeness is the weight of an idea if the word itself counts one.
	likeness = 0.9
	// also is the weight of a word's further meanings that a tool has.
	also = 0.1
	// own limits how far a meaning may be worth more than the word's most common one: a common
	// word seldom means the rare thing that it may also mean.
	own = 0.75
	// few is the least number of tools that are ordered.
	few = 64
	// again is how much less a tool counts for each better one with the same words of the query.
	// If its name has all words of such a tool's name and others that were not requested, it keeps
	// the share longer.
	again, longer = 0.1, 0.7
	// common is the factor for a tool that makes, lists or shows something: among equally good
	// tools, a query that names a thing without a verb usually means one of
	// these.
	common = 1.05
)

// Tool is a tool of a list: its name and its entry, a JSON object.
type Tool struct {
	Name  string
	Entry []byte
}

// Index finds tools. The zero Index is empty.
type Index struct {
	// updating is held during an update, and also mu while the index changes.
	updating sync.Mutex
	mu       sync.RWMutex

	docs  []doc
	free  []uint32
	slots map[string]uint32
	terms map[string][]posting
	// sounds maps spellings to the words among terms.
	sounds map[string][]string
	// length is the total length of all tools, in hundredths of words.
	length    int
	scratches sync.Pool
}

type doc struct {
	Tool
	terms  []string
	length int
	common bool
}

// posting is the weight of a term in a tool.
type posting struct {
	slot   uint32
	weight int32
}

func bySlot(p posting, slot uint32) int { return cmp.Compare(p.slot, slot) }

// Update replaces the content of the index by these tools, sorted by name. It reads only the changed ones
// and replaces them one by one: searches continue meanwhile, and find every unchanged tool.
func (x *Index) Update(tools []Tool) {
	x.updating.Lock()
	defer x.updating.Unlock()
	var gone []string
	for name := range x.slots {
		if _, found := slices.BinarySearchFunc(tools, name, func(t Tool, name string) int { return strings.Compare(t.Name, name) }); !found {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		x.change(func() { x.remove(name) })
	}
	seen := map[string]*word{}
	for _, t := range tools {
		slot, there := x.slots[t.Name]
		if there && bytes.Equal(t.Entry, x.docs[slot].Entry) {
			continue
		}
		now := read(t, seen)
		x.change(func() {
			if there {
				x.remove(t.Name)
			}
			x.add(now)
		})
	}
}

// change changes the index while no search runs.
func (x *Index) change(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slots == nil {
		x.slots, x.terms, x.sounds = map[string]uint32{}, map[string][]posting{}, map[string][]string{}
	}
	f()
}

// Len returns the number of tools in the index.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.slots)
}

func (x *Index) remove(name string) {
	slot := x.slots[name]
	d := &x.docs[slot]
	for _, term := range d.terms {
		all := x.terms[term]
		if i, found := slices.BinarySearchFunc(all, slot, bySlot); found {
			all = slices.Delete(all, i, i+1)
		}
		if x.terms[term] = all; len(all) == 0 {
			delete(x.terms, term)
			x.heard(term, false)
		}
	}
	x.length -= d.length
	*d = doc{}
	delete(x.slots, name)
	x.free = append(x.free, slot)
}

func (x *Index) add(t text) {
	slot := uint32(len(x.docs))
	if n := len(x.free); n > 0 {
		slot, x.free = x.free[n-1], x.free[:n-1]
	} else {
		x.docs = append(x.docs, doc{})
	}
	d := doc{Tool: t.Tool, length: t.length, terms: make([]string, 0, len(t.weights))}
	for term, weight := range t.weights {
		all := x.terms[term]
		if len(all) == 0 {
			x.heard(term, true)
		}
		i, _ := slices.BinarySearchFunc(all, slot, bySlot)
		x.terms[term] = slices.Insert(all, i, posting{slot, weight})
		d.terms = append(d.terms, term)
	}
	for _, verb := range []string{"#create", "#get", "#list"} {
		d.common = d.common || t.weights[verb] >= inName
	}
	x.docs[slot], x.slots[t.Name] = d, slot
	x.length += t.length
}

// text is the indexed form of a tool: the weight of each term, and its length in hundredths of words.
type text struct {
	Tool
	weights map[string]int32
	length  int
}

func read(t Tool, seen map[string]*word) text {
	var said struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Input       struct {
			Properties map[string]jsontext.Value `json:"properties"`
		} `json:"inputSchema"`
	}
	_ = json.Unmarshal(t.Entry, &said) // an unreadable tool is found by its name
	weights, length := map[string]int32{}, 0
	left := maxText
	add := func(said string, weight int32) {
		said = said[:min(len(said), left)]
		left -= len(said)
		terms(said, seen, func(all []term) {
			for _, t := range all {
				weights[t.name] += weight * t.weight / itself
			}
			length += int(weight)
		})
	}
	add(t.Name, inName)
	add(said.Title, inTitle)
	add(said.Description, inDescription)
	for _, name := range slices.Sorted(maps.Keys(said.Input.Properties)) { // sorted, so that every edge reads the same part
		if left == 0 {
			break
		}
		var parameter struct {
			Description string `json:"description"`
		}
		add(name, inParameter)
		if json.Unmarshal(said.Input.Properties[name], &parameter) == nil {
			add(parameter.Description, inParameter)
		}
	}
	return text{t, weights, length}
}

// scratch is the working memory of one search.
type scratch struct {
	all, word []float64
	some, now []uint32
	// words marks the words of the query that a tool has, one bit each.
	words []uint32
}

// Search returns the names of the tools that fit a query best, best first, at most limit of those for
// which sees is true.
func (x *Index) Search(query string, limit int, sees func(name string) bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.slots) == 0 {
		return nil
	}
	r, _ := x.scratches.Get().(*scratch)
	if r == nil || len(r.all) < len(x.docs) {
		r = &scratch{all: make([]float64, len(x.docs)+256), word: make([]float64, len(x.docs)+256), words: make([]uint32, len(x.docs)+256)}
	}
	defer x.scratches.Put(r)
	asked := map[string]bool{}
	terms(query[:min(len(query), MaxQuery)], map[string]*word{}, func(alternatives []term) {
		if asked[alternatives[0].name] || len(asked) == maxWords {
			return
		}
		asked[alternatives[0].name] = true
		x.word(r, alternatives)
		for _, slot := range r.now {
			if r.all[slot] == 0 {
				r.some = append(r.some, slot)
			}
			r.all[slot] += r.word[slot]
			r.words[slot] |= 1 << (len(asked) - 1)
			r.word[slot] = 0
		}
		r.now = r.now[:0]
	})
	for _, slot := range r.some {
		if x.docs[slot].common {
			r.all[slot] *= common
		}
	}
	best := x.best(r, limit, sees)
	for _, slot := range r.some {
		r.all[slot], r.words[slot] = 0, 0
	}
	r.some = r.some[:0]
	return best
}

// word adds the score of one word of a query to each tool.
func (x *Index) word(r *scratch, alternatives []term) {
	least := math.Inf(1)
	for _, t := range alternatives {
		if n := len(x.terms[t.name]); n > 0 {
			least = min(least, x.rare(n))
		}
	}
	if math.IsInf(least, 1) { // no tool has the word in any meaning
		for _, t := range x.alike(alternatives[0].name) {
			x.score(r, t, x.rare(len(x.terms[t.name])))
		}
		return
	}
	for _, t := range alternatives {
		worth := x.rare(len(x.terms[t.name]))
		if strings.HasPrefix(t.name, idea) {
			worth = likeness * (least + own*(worth-least))
		}
		x.score(r, t, worth)
	}
}

// rare returns the weight of a term that n tools have.
func (x *Index) rare(n int) float64 {
	some, of := float64(n), float64(len(x.slots))
	return math.Log(1 + (of-some+0.5)/(some+0.5))
}

// score adds the weight of a term to each tool that has it. If a word has several terms,
// the best one counts, and the others a little.
func (x *Index) score(r *scratch, t term, worth float64) {
	worth *= float64(t.weight) / itself
	mean := float64(x.length) / float64(len(x.slots))
	for _, p := range x.terms[t.name] {
		tf := float64(p.weight) / inDescription
		long := 1 - b + b*float64(x.docs[p.slot].length)/mean
		score, had := worth*tf*(k1+1)/(tf+k1*long), r.word[p.slot]
		if had == 0 {
			r.now = append(r.now, p.slot)
		}
		r.word[p.slot] = max(score, had) + also*min(score, had)
	}
}

// best returns the names of the tools with the highest scores, not too many of one kind. Tools that the
// caller may not use have no influence.
func (x *Index) best(r *scratch, limit int, sees func(name string) bool) (names []string) {
	better := func(a, b uint32) int {
		return cmp.Or(cmp.Compare(r.all[b], r.all[a]), strings.Compare(x.docs[a].Name, x.docs[b].Name))
	}
	candidates := max(few, limit)
	top := make([]uint32, 0, candidates+1)
	for _, slot := range r.some {
		if len(top) == candidates && better(slot, top[candidates-1]) > 0 || !sees(x.docs[slot].Name) {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, slot, better)
		top = slices.Insert(top, i, slot)
		top = top[:min(len(top), candidates)]
	}
	x.vary(r, top)
	slices.SortFunc(top, better)
	for _, slot := range top[:min(len(top), limit)] {
		names = append(names, x.docs[slot].Name)
	}
	return names
}

// vary lowers a tool's score for each better one that the query does not distinguish from it: if these are
// not meant, it seldom is, and something else may be.
func (x *Index) vary(r *scratch, best []uint32) {
	names := map[uint32][][]string{} // by the words of the query
	for _, slot := range best {
		name, better := nameWords(x.docs[slot].Name), names[r.words[slot]]
		r.all[slot] /= 1 + again*float64(len(better))
		if slices.ContainsFunc(better, func(short []string) bool { return within(short, name) }) {
			r.all[slot] *= longer
		}
		names[r.words[slot]] = append(better, name)
	}
}

// nameWords returns the words of a name.
func nameWords(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// within reports whether others contain every one of some words.
func within(some, others []string) bool {
	return !slices.ContainsFunc(some, func(word string) bool { return !slices.Contains(others, word) })
}
