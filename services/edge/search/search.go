// Package search is an index of tools by what they say of themselves: names, titles,
// descriptions and parameters. It ranks by BM25 over stems and over ideas, which a small
// dictionary gives the words of four languages; it needs no model, and gives the same
// order wherever it is asked.
package search

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what is read of one tool, all its texts together, and of one query, bytes.
const (
	maxText  = 8 << 10
	MaxQuery = 512
)

// What a word counts for by where it stands, in tenths.
const (
	inName        = 30
	inTitle       = 20
	inDescription = 10
	inParameter   = 3
)

// The parameters of BM25, and what an idea counts for where the word itself is one.
const (
	k1, b    = 1.2, 0.3
	likeness = 0.8
	// first is how much more a tool counts for that makes, lists or shows something: of
	// tools that fit alike, these are the ones meant by who names a thing and no verb.
	first = 1.05
)

// Tool is one of a list: its name, and its entry there, a JSON object.
type Tool struct {
	Name  string
	Entry []byte
}

// Index finds tools. The zero Index is empty.
type Index struct {
	// updating is held by who changes the index, and mu besides while it changes.
	updating sync.Mutex
	mu       sync.RWMutex

	docs  []doc
	free  []uint32
	slots map[string]uint32
	terms map[string][]posting
	// length is that of all tools together, tenths of words.
	length int
	rooms  sync.Pool
}

type doc struct {
	Tool
	terms  []string
	length int
	first  bool
}

// posting says how much of a term a tool has.
type posting struct {
	slot   uint32
	weight int32
}

func bySlot(p posting, slot uint32) int { return cmp.Compare(p.slot, slot) }

// Update has the index hold these tools, sorted by name, and no others. It reads those
// alone that are not as they were; meanwhile, tools are found as they were.
func (x *Index) Update(tools []Tool) {
	x.updating.Lock()
	defer x.updating.Unlock()
	var gone []string
	for name, slot := range x.slots {
		i, found := slices.BinarySearchFunc(tools, name, func(t Tool, name string) int { return strings.Compare(t.Name, name) })
		if !found || !bytes.Equal(tools[i].Entry, x.docs[slot].Entry) {
			gone = append(gone, name)
		}
	}
	var come []text
	seen := map[string][]string{}
	for _, t := range tools {
		if slot, there := x.slots[t.Name]; !there || !bytes.Equal(t.Entry, x.docs[slot].Entry) {
			come = append(come, read(t, seen))
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slots == nil {
		x.slots, x.terms = map[string]uint32{}, map[string][]posting{}
	}
	for _, name := range gone {
		x.remove(name, x.slots[name])
	}
	for _, t := range come {
		x.add(t)
	}
}

// Len is how many tools the index holds.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.slots)
}

func (x *Index) remove(name string, slot uint32) {
	d := &x.docs[slot]
	for _, term := range d.terms {
		all := x.terms[term]
		if i, found := slices.BinarySearchFunc(all, slot, bySlot); found {
			all = slices.Delete(all, i, i+1)
		}
		if x.terms[term] = all; len(all) == 0 {
			delete(x.terms, term)
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
		i, _ := slices.BinarySearchFunc(all, slot, bySlot)
		x.terms[term] = slices.Insert(all, i, posting{slot, weight})
		d.terms = append(d.terms, term)
	}
	for _, verb := range []string{"#create", "#get", "#list"} {
		d.first = d.first || t.weights[verb] >= inName
	}
	x.docs[slot], x.slots[t.Name] = d, slot
	x.length += t.length
}

// text is what a tool says of itself: how much it has of each term, and how long it is,
// in tenths of words.
type text struct {
	Tool
	weights map[string]int32
	length  int
}

func read(t Tool, seen map[string][]string) text {
	var said struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Input       struct {
			Properties map[string]jsontext.Value `json:"properties"`
		} `json:"inputSchema"`
	}
	_ = json.Unmarshal(t.Entry, &said) // what cannot be read is found by its name
	weights, length := map[string]int32{}, 0
	left := maxText
	add := func(said string, weight int32) {
		said = said[:min(len(said), left)]
		left -= len(said)
		terms(said, seen, func(all []string) {
			for _, term := range all {
				weights[term] += weight
			}
			length += int(weight)
		})
	}
	add(t.Name, inName)
	add(said.Title, inTitle)
	add(said.Description, inDescription)
	for _, name := range slices.Sorted(maps.Keys(said.Input.Properties)) { // every edge reads the same part of many
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

// room is where one search counts.
type room struct {
	all, word []float64
	some, now []uint32
}

// Search returns the names of the tools that fit a query best, the best first, at most
// limit of those that sees reports true for.
func (x *Index) Search(query string, limit int, sees func(name string) bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.slots) == 0 {
		return nil
	}
	r, _ := x.rooms.Get().(*room)
	if r == nil || len(r.all) < len(x.docs) {
		r = &room{all: make([]float64, len(x.docs)+256), word: make([]float64, len(x.docs)+256)}
	}
	defer x.rooms.Put(r)
	mean := float64(x.length) / float64(len(x.slots))
	terms(query[:min(len(query), MaxQuery)], nil, func(alternatives []string) {
		for i, term := range alternatives {
			part := 1.0
			if i > 0 {
				part = likeness / math.Sqrt(float64(len(alternatives)-1))
			}
			x.score(r, term, part, mean)
		}
		for _, slot := range r.now {
			if r.all[slot] == 0 {
				r.some = append(r.some, slot)
			}
			r.all[slot] += r.word[slot]
			r.word[slot] = 0
		}
		r.now = r.now[:0]
	})
	for _, slot := range r.some {
		if x.docs[slot].first {
			r.all[slot] *= first
		}
	}
	best := x.best(r, limit, sees)
	for _, slot := range r.some {
		r.all[slot] = 0
	}
	r.some = r.some[:0]
	return best
}

// score has each tool with a term get what that is worth, unless another term for the
// same word is worth more.
func (x *Index) score(r *room, term string, part, mean float64) {
	all := x.terms[term]
	n, of := float64(len(all)), float64(len(x.slots))
	rare := math.Log(1 + (of-n+0.5)/(n+0.5))
	for _, p := range all {
		tf := float64(p.weight) / inDescription
		long := 1 - b + b*float64(x.docs[p.slot].length)/mean
		score := part * rare * tf * (k1 + 1) / (tf + k1*long)
		if r.word[p.slot] == 0 {
			r.now = append(r.now, p.slot)
		}
		r.word[p.slot] = max(r.word[p.slot], score)
	}
}

func (x *Index) best(r *room, limit int, sees func(name string) bool) []string {
	better := func(a, b uint32) int {
		return cmp.Or(cmp.Compare(r.all[b], r.all[a]), strings.Compare(x.docs[a].Name, x.docs[b].Name))
	}
	slices.SortFunc(r.some, better)
	var names []string
	for _, slot := range r.some {
		if len(names) == limit {
			break
		}
		if name := x.docs[slot].Name; sees(name) {
			names = append(names, name)
		}
	}
	return names
}
