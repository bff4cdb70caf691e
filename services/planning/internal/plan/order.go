package plan

import (
	"slices"

	"github.com/busbar-mcp/busbar/services/planning/internal/task"
)

// order adds dependencies: first those from the text, then those between steps that make something and
// steps that use it, then those from the stages. A dependency that would close a cycle is dropped, so the
// earlier reason wins.
func (b *builder) order() {
	b.said()
	b.made()
	b.staged()
}

// link makes after wait for before, unless it already does, or before waits for after.
func (b *builder) link(before, after *draft) {
	if before == nil || after == nil || before == after || after.behind.has(before.index) || before.behind.has(after.index) {
		return
	}
	after.after = append(after.after, before)
	for _, s := range b.drafts {
		if s == after || s.behind.has(after.index) {
			s.behind.add(before)
		}
	}
}

// said applies the words of order in the text.
func (b *builder) said() {
	demands := b.task.Demands
	for i, d := range demands {
		if b.main[i] == nil {
			continue
		}
		if d.Then && i > 0 && sameSource(demands[i-1], d) {
			b.say(b.main[i-1], b.main[i])
		}
		for j, o := range demands {
			if i == j || b.main[j] == nil || !sameSource(d, o) || !o.Own || j == b.task.Goal && b.core.stage < rollout {
				continue
			}
			if d.First && j > i {
				b.say(b.main[i], b.main[j])
			}
			if d.Last && j < i {
				b.say(b.main[j], b.main[i])
			}
		}
		if d.First && d.ID[0] == 'R' && d.Own && b.core.stage == work {
			b.say(b.main[i], b.core) // "the orders first", of a whole that is split
		}
		if s := b.named(i, d.Before, nil); s != nil {
			b.say(b.last[i], s)
			b.say(b.main[i], s)
		}
		var fallback *draft
		if b.core.stage == rollout && i != b.task.Goal {
			fallback = b.core // "only after 30 days"
		}
		if s := b.named(i, d.After, fallback); s != nil {
			b.say(s, b.first[i])
			b.say(s, b.main[i])
		}
	}
}

// say links two steps and keeps the order of their demands.
func (b *builder) say(before, after *draft) {
	b.link(before, after)
	if before != nil && after != nil && after.behind.has(before.index) && before.covers[0] != after.covers[0] {
		b.orders = append(b.orders, [2]int{before.covers[0], after.covers[0]})
	}
}

// sameSource reports whether both demands come from the task, or both from requirements.
func sameSource(a, o *task.Demand) bool { return a.ID[0] == o.ID[0] }

// named returns the step, not of demand i, that a word of order refers to: the goal's step if the
// reference has a word of its kind ("before the cutover"), otherwise the step of the demand with
// most terms in common, otherwise fallback.
func (b *builder) named(i int, r task.Reference, fallback *draft) *draft {
	if r.Terms == nil {
		return nil
	}
	if i != b.task.Goal && (r.Kinds[b.task.Kind] || len(r.Terms) == 0) {
		return b.core
	}
	best, top := -1, 0
	for j, d := range b.task.Demands {
		if j == i || b.main[j] == nil {
			continue
		}
		n := 0
		for t := range r.Terms {
			if d.Terms[t] && !d.Before.Terms[t] && !d.After.Terms[t] {
				n++
			}
		}
		if n > top {
			best, top = j, n
		}
	}
	if best < 0 {
		return fallback
	}
	return b.main[best]
}

// object is how many terms after the act name the object of a demand.
const object = 4

// made makes a step wait for the step that makes its object: a demand mentions the object of another, and
// does not make it itself.
func (b *builder) made() {
	goal := b.task.Demands[b.task.Goal]
	objects := make([]map[string]bool, len(b.task.Demands))
	for i, d := range b.task.Demands {
		objects[i] = d.Object(object)
	}
	for j, maker := range b.task.Demands {
		if j == b.task.Goal || b.main[j] == nil || !maker.Own || b.main[j].stage > work {
			continue
		}
		for i, user := range b.task.Demands {
			if i <= j || i == b.task.Goal || b.main[i] == nil || b.main[i].stage < decide || !sameSource(maker, user) {
				continue
			}
			for thing := range objects[j] {
				if user.Terms[thing] && !objects[i][thing] && !goal.Terms[thing] {
					b.link(b.main[j], b.main[i])
					break
				}
			}
		}
	}
}

// settles lists decisions that the design of the whole depends on.
var settles = map[string]bool{"decide": true, "sketchInterface": true, "estimateCost": true}

// staged orders the remaining steps by stage.
func (b *builder) staged() {
	k := b.task.Kind
	var base *draft // the goal's step that all work builds on
	for _, s := range b.chain {
		if s.stage <= decide {
			base = s
		}
	}
	of := map[stage][]*draft{}
	for _, s := range b.drafts {
		of[s.stage] = append(of[s.stage], s)
	}
	for _, s := range b.drafts {
		switch {
		case base != nil && base.stage == decide && (s.stage <= analyse || settles[s.action]):
			b.link(s, base)
		case s.stage == work:
			b.link(base, s)
			if s == b.core {
				break
			}
			if k == task.Build {
				b.link(b.core, s)
			}
			if k == task.Write || k == task.General {
				b.link(s, b.core)
			}
		}
		// Money is counted before it is spent.
		if s.stage < work && (s.action == "estimateCost" || s.action == "obtainApproval") {
			for _, o := range append(slices.Clone(of[work]), of[rollout]...) {
				if s.action == "obtainApproval" || o.action == "book" || o.action == "buy" || o.action == "holdEvent" {
					b.link(s, o)
				}
			}
		}
		if s.action == "backUpData" {
			for _, o := range append(slices.Clone(of[work]), of[rollout]...) {
				b.link(s, o)
			}
			for _, o := range of[verify] {
				if o.action == "rehearse" {
					b.link(s, o)
				}
			}
		}
	}
	b.verifications(of)
	// A step in the chain of the goal that verifies everything, such as the acceptance, waits
	// for the other verifications.
	for _, s := range of[verify] {
		if s.action == "acceptWhole" || s.action == "compareOptions" || s.action == "drawConclusions" || s.action == "interpretResult" {
			for _, o := range of[verify] {
				if o != s && (s.action != "acceptWhole" || o.covers[0] != b.task.Goal) {
					b.link(o, s)
				}
			}
		}
	}
	b.ends(of[rollout], func(s *draft) bool { return s.stage < rollout && !b.later(s) })
	before := func(s *draft) bool { return s.stage < follow }
	b.ends(of[follow], before)
}

// verifications makes each verification wait for the work it verifies: the work of its own demand,
// otherwise the work of related demands, otherwise all work.
func (b *builder) verifications(of map[stage][]*draft) {
	// Work that the text puts after the rollout cannot be verified before it.
	before := slices.DeleteFunc(slices.Clone(of[work]), b.later)
	for _, s := range of[verify] {
		d := b.task.Demands[s.covers[0]]
		found := false
		for _, p := range s.after {
			found = found || p.stage == work
		}
		if b.core.stage == work {
			b.link(b.core, s)
		}
		inChain := slices.Contains(b.chain, s)
		if !inChain {
			for _, w := range before {
				if w != b.core && b.related(d, b.task.Demands[w.covers[0]]) {
					b.link(w, s)
					found = true
				}
			}
		}
		if !found || inChain {
			for _, w := range before {
				b.link(w, s)
			}
		}
	}
}

// later reports whether the text puts a step after the goal, and the goal is the rollout.
func (b *builder) later(s *draft) bool { return b.core.stage == rollout && s.behind.has(b.core.index) }

// related reports whether two demands mention the same thing, apart from what the goal names.
func (b *builder) related(a, o *task.Demand) bool {
	goal := b.task.Demands[b.task.Goal]
	for t := range a.Terms {
		if o.Terms[t] && !goal.Terms[t] {
			return true
		}
	}
	return false
}

// ends makes each of late wait for every step that no other waits for yet.
func (b *builder) ends(late []*draft, early func(*draft) bool) {
	if len(late) == 0 {
		return
	}
	waited := make([]bool, len(b.drafts))
	for _, s := range b.drafts {
		if early(s) {
			for _, p := range s.after {
				waited[p.index] = true
			}
		}
	}
	for _, s := range b.drafts {
		if !early(s) || waited[s.index] {
			continue
		}
		for _, l := range late {
			b.link(s, l)
		}
	}
}

// sorted returns the drafts in the order of the plan: by depth, then by stage and place in the text.
func (b *builder) sorted() []*draft {
	var depth func(s *draft) int
	depth = func(s *draft) int {
		if s.depth == 0 {
			s.depth = 1
			for _, p := range s.after {
				s.depth = max(s.depth, depth(p)+1)
			}
		}
		return s.depth
	}
	for _, s := range b.drafts {
		depth(s)
	}
	out := slices.Clone(b.drafts)
	slices.SortStableFunc(out, func(x, y *draft) int {
		if x.depth != y.depth {
			return x.depth - y.depth
		}
		if x.stage != y.stage {
			return int(x.stage) - int(y.stage)
		}
		return x.covers[0] - y.covers[0]
	})
	return out
}

// waits returns the positions of the drafts that s waits for directly, without those that follow from
// others.
func waits(s *draft, at map[*draft]int) []int {
	var out []int
	for _, p := range s.after {
		if !slices.ContainsFunc(s.after, func(o *draft) bool { return o != p && o.behind.has(p.index) }) {
			out = append(out, at[p])
		}
	}
	slices.Sort(out)
	return out
}
