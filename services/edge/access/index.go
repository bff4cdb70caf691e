package access

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strings"
)

// index finds the patterns that fit a target without trying all of them: it tries only
// those whose literal beginning is a beginning of the name.
type index [kinds]chain

// chain is the patterns of one kind, sorted by their literal beginnings.
type chain []link

// link is the patterns with one literal beginning. up is the index of the longest other
// literal that this one begins with; -1 without one.
type link struct {
	literal  string
	up       int
	patterns []*pattern
}

func newIndex(patterns []pattern) *index {
	x := &index{}
	add := func(k Kind, p pattern) {
		c := x[k]
		i, found := slices.BinarySearchFunc(c, p.literal, func(l link, literal string) int { return cmp.Compare(l.literal, literal) })
		if !found {
			c = slices.Insert(c, i, link{literal: p.literal})
		}
		c[i].patterns = append(c[i].patterns, &p)
		x[k] = c
	}
	for _, p := range patterns {
		for k := range kinds {
			if p.all || p.kind == k {
				add(k, p)
			}
		}
		if read, ok := p.read(); ok {
			add(p.kind, read)
		}
	}
	for _, c := range x {
		for i := range c {
			c[i].up = c.before(i, c[i].literal)
		}
	}
	return x
}

// before is the index, before n, of the longest literal that a name begins with; -1
// without one. In order, everything between that literal and the name begins with the
// literal.
func (c chain) before(n int, name string) int {
	i := n - 1
	for i >= 0 && !strings.HasPrefix(name, c[i].literal) {
		i = c[i].up
	}
	return i
}

// fitting are the patterns that fit a name, the longest literal beginning first.
func (x *index) fitting(k Kind, name string) iter.Seq[*pattern] {
	c := x[k]
	return func(yield func(*pattern) bool) {
		n := sort.Search(len(c), func(i int) bool { return c[i].literal > name })
		for i := c.before(n, name); i >= 0; i = c[i].up {
			for _, p := range c[i].patterns {
				if p.matchesName(name) && !yield(p) {
					return
				}
			}
		}
	}
}

// find returns the first pattern that fits a name; nil if none does.
func (x *index) find(k Kind, name string) *pattern {
	for p := range x.fitting(k, name) {
		return p
	}
	return nil
}

// any returns a pattern that fits the target in any of its readings; nil if none does.
func (x *index) any(t *Target) *pattern {
	p := x.find(t.Kind, t.Name)
	for i := 0; p == nil && i < len(t.readings); i++ {
		p = x.find(t.Kind, t.readings[i])
	}
	return p
}

// empty reports whether nothing of a kind fits.
func (x *index) empty(k Kind) bool { return len(x[k]) == 0 }
