package limit

import (
	"cmp"
	"slices"
	"time"
)

// view is which edges share the limits, numbered: every change of them makes a
// new one.
type view struct {
	number  uint64
	members []member
}

// member is an edge, with a number for it that all edges compute alike.
type member struct {
	id   string
	hash uint64
}

func newView(number uint64, ids []string) view {
	v := view{number: number}
	for _, id := range ids {
		v.members = append(v.members, member{id, hashed(hashBegin, id)})
	}
	slices.SortFunc(v.members, func(a, b member) int { return cmp.Compare(a.id, b.id) })
	return v
}

// share is the part of a limit that an edge has by itself, of so many tokens in
// all. As many edges hold tokens as can each have a whole one, those that score
// highest for the key. An edge that is no member has none.
func (v view) share(self string, key uint64, tokens float64) float64 {
	holders := v.holders(tokens)
	switch {
	case !v.has(self):
		return 0
	case holders < len(v.members) && v.rank(self, key) >= holders:
		return 0
	}
	return 1 / float64(holders)
}

func (v view) has(id string) bool {
	return slices.ContainsFunc(v.members, func(m member) bool { return m.id == id })
}

// places is the part of so many calls at once that an edge has by itself.
func (v view) slots(self string, key uint64, n int) int {
	if !v.has(self) {
		return 0
	}
	each, rest := n/len(v.members), n%len(v.members)
	if v.rank(self, key) < rest {
		each++
	}
	return each
}

// rank is how many edges score higher for a key than a member does.
func (v view) rank(self string, key uint64) (above int) {
	me := slices.IndexFunc(v.members, func(m member) bool { return m.id == self })
	mine := score(v.members[me], key)
	for i, m := range v.members {
		if s := score(m, key); s > mine || s == mine && i < me {
			above++
		}
	}
	return above
}

// holders is how many edges hold tokens of a limit.
func (v view) holders(tokens float64) int {
	return max(1, min(len(v.members), int(min(tokens, 1<<20))))
}

// others are the other edges that hold tokens of a key, the highest score first.
func (v view) others(self string, key uint64, tokens float64) []string {
	ranked := slices.Clone(v.members)
	slices.SortFunc(ranked, func(a, b member) int {
		return cmp.Or(cmp.Compare(score(b, key), score(a, key)), cmp.Compare(a.id, b.id))
	})
	var ids []string
	for _, m := range ranked[:min(v.holders(tokens), len(ranked))] {
		if m.id != self {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// hashBegin is where hashed begins.
const hashBegin uint64 = 14695981039346656037

// hashed adds a text to a hash, which is the same at every edge (FNV-1a).
func hashed(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ uint64(len(s))) * 1099511628211
}

// score ranks the edges for a key: the highest hold it. Where one edge leaves,
// only its keys go to others.
func score(m member, key uint64) uint64 {
	z := m.hash ^ key + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// epoch is a time in which the shares of an edge do not change: of every key it
// has the least that it has in any of the views.
type period struct {
	since time.Duration
	views []view
}

func (e period) share(self string, key uint64, tokens float64) float64 {
	least := 1.0
	for _, v := range e.views {
		least = min(least, v.share(self, key, tokens))
	}
	return least
}

func (e period) slots(self string, key uint64, n int) int {
	least := n
	for _, v := range e.views {
		least = min(least, v.slots(self, key, n))
	}
	return least
}

// standing is what an edge has by itself, and had before. It never changes.
type holdings struct {
	self string
	// latest numbers the last of epochs, of which there is at least one.
	latest  uint64
	periods []period
}

// maxEpochs bounds the epochs that are remembered. What was used before them is
// counted as if it had been empty then.
const maxPeriods = 16

// next is the standing with one more epoch.
func (s *holdings) next(e period) *holdings {
	epochs := append(slices.Clone(s.periods), e)
	return &holdings{s.self, s.latest + 1, epochs[max(0, len(epochs)-maxPeriods):]}
}

// view is the latest that the edge knows.
func (s *holdings) view() view {
	views := s.periods[len(s.periods)-1].views
	return views[len(views)-1]
}
