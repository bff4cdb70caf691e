// Package keyword ranks the words of a text by how much they say about it. The method is PositionRank
// (Florescu and Caragea 2017): PageRank over the graph of words that stand near one another. It restarts
// at words in proportion to their frequency, how early they occur, and their length. It needs no corpus,
// and the forms of an inflected word count as one. Start at Find.
package keyword

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

// Keyword is a word of the text with its weight.
type Keyword struct {
	// Word is the most frequent form of the word, as term.Spelling shows it.
	Word string
	// Count is how often the word occurs in any form.
	Count int
	// Score is above 0 and at most 1, the score of the best keyword. It is rounded to
	// three decimals; compare it only within one text.
	Score float64
}

const (
	window     = 3    // how many following words a word is linked to
	damping    = 0.85 // the usual share of rank passed along links
	iterations = 40   // upper bound; usually fewer are needed
	tolerance  = 1e-6
	slope      = 0.1 // how fast later sentences weigh less
	fewTerms   = 24  // a text with fewer is a sentence or two
	hanLetters = 4   // one Han character counts as this many letters
	verbWeight = 0.4 // factor for a word that looks like a verb
	longEnough = 8   // letters; longer words weigh the same
	// maxNodes bounds the graph to the most frequent words.
	maxNodes = 20000
)

// Find returns the n best keywords, best first and equal ones in order of
// appearance. Its time is linear in the number of terms.
func Find(ctx context.Context, terms []term.Term, n int) ([]Keyword, error) {
	g := build(terms)
	rank, err := g.rank(ctx)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(g.nodes))
	for i := range order {
		order[i] = i
	}
	best := 0.0
	for _, r := range rank {
		best = max(best, r)
	}
	for i := range rank {
		// Round first, so that ties are ties for every reader.
		rank[i] = max(math.Round(rank[i]/best*1000)/1000, 0.001)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
	order = order[:min(n, len(order))]
	found := make([]Keyword, 0, len(order))
	for _, i := range order {
		found = append(found, Keyword{Word: g.nodes[i].word(), Count: g.nodes[i].count, Score: rank[i]})
	}
	return found, nil
}

// node is one word in all its forms.
type node struct {
	count int
	start float64 // restart weight
	forms []form
}

type form struct {
	text     string
	count    int
	spelling term.Spelling
}

func (n *node) add(t term.Term) {
	n.count++
	i := slices.IndexFunc(n.forms, func(f form) bool { return f.text == t.Form })
	if i < 0 {
		i = len(n.forms)
		n.forms = append(n.forms, form{text: t.Form})
	}
	n.forms[i].count++
	n.forms[i].spelling.Add(t)
}

// word returns the most frequent form. Among equals it prefers one that the others extend by an ending.
func (n *node) word() string {
	best := &n.forms[0]
	for i := range n.forms {
		f := &n.forms[i]
		if f.count > best.count || f.count == best.count && strings.HasPrefix(best.text, f.text) {
			best = f
		}
	}
	return best.spelling.Show()
}

// graph holds the words in order of appearance and the links among them.
type graph struct {
	nodes []node
	links []link // sorted
}

type link struct {
	from, to int32
	weight   float64 // share of the source's rank
}

func build(terms []term.Term) *graph {
	g := new(graph)
	index := make(map[string]int)
	ids := make([]int32, len(terms))
	for i, t := range terms {
		id, ok := index[t.Key]
		if !ok {
			id = len(g.nodes)
			index[t.Key] = id
			g.nodes = append(g.nodes, node{})
		}
		g.nodes[id].add(t)
		g.nodes[id].start += weight(t, i, len(terms))
		ids[i] = int32(id)
	}
	keep := g.frequent()
	var pairs []uint64
	for i := range ids {
		for j := i + 1; j < len(ids) && j <= i+window && terms[j].Sentence == terms[i].Sentence; j++ {
			if a, b := ids[i], ids[j]; a != b && keep(a) && keep(b) {
				pairs = append(pairs, pack(a, b), pack(b, a))
			}
		}
	}
	// Sorting keeps the order of additions, and so the results, the same on every run.
	slices.Sort(pairs)
	out := make([]float64, len(g.nodes))
	for i, p := range pairs {
		from, to := int32(p>>32), int32(p&math.MaxUint32)
		out[from]++
		if i > 0 && pairs[i-1] == p {
			g.links[len(g.links)-1].weight++
			continue
		}
		g.links = append(g.links, link{from, to, 1})
	}
	for i := range g.links {
		g.links[i].weight /= out[g.links[i].from]
	}
	return g
}

// weight returns the restart weight of the i-th of n terms. In a sentence or two hardly anything repeats,
// so only the order of words tells them apart; in longer texts the order within a sentence says little.
func weight(t term.Term, i, n int) float64 {
	weight := 1 / float64(i+1)
	if n >= fewTerms {
		weight = specific(t) / (1 + slope*float64(t.Sentence))
	}
	if t.Verbal {
		weight *= verbWeight
	}
	return weight
}

// specific returns the weight of a word by its length, because short words are mostly common ones.
// Characters that stand for syllables count more, and so do acronyms.
func specific(t term.Term) float64 {
	n := utf8.RuneCountInString(t.Form)
	switch {
	case segment.IsHan(t.Form):
		n *= hanLetters
	case n > 1 && t.Surface == strings.ToUpper(t.Surface):
		n = longEnough
	}
	return float64(min(n, longEnough)) / longEnough
}

// frequent returns a function that reports whether a word takes part in the ranking.
func (g *graph) frequent() func(int32) bool {
	if len(g.nodes) <= maxNodes {
		return func(int32) bool { return true }
	}
	counts := make([]int, len(g.nodes))
	for i := range g.nodes {
		counts[i] = g.nodes[i].count
	}
	slices.Sort(counts)
	floor := counts[len(counts)-maxNodes]
	return func(id int32) bool { return g.nodes[id].count > floor || g.nodes[id].count == floor && floor > 1 }
}

func pack(a, b int32) uint64 { return uint64(a)<<32 | uint64(b) }

func (g *graph) rank(ctx context.Context) ([]float64, error) {
	total := 0.0
	for i := range g.nodes {
		total += g.nodes[i].start
	}
	rank := make([]float64, len(g.nodes))
	for i := range rank {
		rank[i] = g.nodes[i].start / total
	}
	next := make([]float64, len(rank))
	for range iterations {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for i := range next {
			next[i] = (1 - damping) * g.nodes[i].start / total
		}
		for _, l := range g.links {
			next[l.to] += damping * rank[l.from] * l.weight
		}
		change := 0.0
		for i := range rank {
			change += math.Abs(next[i] - rank[i])
		}
		rank, next = next, rank
		if change < tolerance {
			break
		}
	}
	return rank, nil
}
