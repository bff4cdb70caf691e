package plan

import (
	"slices"

	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// draft is a step that has no number yet.
type draft struct {
	doing
	// covers holds indexes of demands; the first determines the step's position.
	covers []int
	// own: the description is the demand's own words.
	own bool
	// closes: the step is the last of its demand, and its check has the
	// demand's limits and condition.
	closes bool
	index  int // in builder.drafts
	after  []*draft
	behind set // every draft it waits for, directly or not
	depth  int
}

// set is a set of drafts, by index.
type set [(MaxSteps + 63) / 64]uint64

func (s *set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// add adds a draft and every draft it waits for.
func (s *set) add(d *draft) {
	for w := range s {
		s[w] |= d.behind[w]
	}
	s[d.index/64] |= 1 << (d.index % 64)
}

// builder makes one plan.
type builder struct {
	task   *task.Task
	drafts []*draft
	shared map[string]*draft // by action: one step for all demands
	first  []*draft          // of each demand
	main   []*draft
	last   []*draft
	chain  []*draft // of the goal
	core   *draft   // the step that fulfils the goal
	orders [][2]int // order of demands, as the text says
	// demanding counts the demands, except the goal, that need work.
	demanding int
}

// Make makes the plan of a task.
func Make(t *task.Task) *Plan {
	n := len(t.Demands)
	b := &builder{task: t, shared: map[string]*draft{}, first: make([]*draft, n), main: make([]*draft, n), last: make([]*draft, n)}
	for i, d := range t.Demands {
		if i != t.Goal && !b.given(d) && d.Type != task.Deadline {
			b.demanding++
		}
	}
	for i, d := range t.Demands {
		if i != t.Goal {
			b.demand(i, d)
		}
	}
	b.goal()
	b.leftover()
	b.uncovered()
	b.order()
	return b.finish()
}

func (b *builder) add(d doing, covers ...int) *draft {
	s := &draft{doing: d, covers: covers, index: len(b.drafts)}
	b.drafts = append(b.drafts, s)
	return s
}

// once returns the step of an action that exists once for all demands that need it.
func (b *builder) once(p part, i int) *draft {
	if s := b.shared[p.action]; s != nil {
		if !slices.Contains(s.covers, i) {
			s.covers = append(s.covers, i)
		}
		return s
	}
	s := b.byAct(p.act)
	if s == nil {
		s = b.add(doing{p.action, p.stage}, i)
	} else if !slices.Contains(s.covers, i) {
		s.covers = append(s.covers, i)
	}
	b.shared[p.action] = s
	return s
}

// byAct returns the step of the first demand that begins with an act.
func (b *builder) byAct(act string) *draft {
	if act == "" {
		return nil
	}
	for i, d := range b.task.Demands {
		if i != b.task.Goal && d.Own && d.Act == act && b.main[i] != nil {
			return b.main[i]
		}
	}
	return nil
}

// room reports whether optional steps may still be added. Each remaining demand, and the goal, must still
// get its steps.
func (b *builder) room() bool { return len(b.drafts) < MaxSteps-len(b.task.Demands)-20 }

// demand derives the steps of one demand.
func (b *builder) demand(i int, d *task.Demand) {
	if b.given(d) {
		return // covered by steps of the goal
	}
	what, own, only := b.what(d)
	var steps []*draft
	for _, topic := range d.Topics {
		if x := extras[topic].before; x.action != "" && x.action != what.action && asks(b.task.Kind, topic) && b.room() {
			s := b.once(x, i)
			if s.covers[0] == i {
				b.first[i] = s
			}
			steps = append(steps, s)
		}
	}
	if !only {
		s := b.add(what, i)
		s.own = own
		b.main[i] = s
		steps = append(steps, s)
	}
	for _, topic := range d.Topics {
		if x := extras[topic].after; x.action != "" && x.action != what.action && asks(b.task.Kind, topic) && b.room() {
			if x.stage == follow {
				steps = append(steps, b.once(x, i))
				continue
			}
			steps = append(steps, b.add(doing{x.action, x.stage}, i))
		}
	}
	slices.SortStableFunc(steps, func(x, y *draft) int { return int(x.stage) - int(y.stage) })
	for j := 1; j < len(steps); j++ {
		b.link(steps[j-1], steps[j])
	}
	b.last[i] = steps[len(steps)-1]
	b.last[i].closes = true
	if b.main[i] == nil {
		b.main[i] = b.last[i]
	}
	if b.first[i] == nil {
		b.first[i] = b.main[i]
	}
}

// given reports whether a demand describes a fact, or is the question that the whole task is about.
func (b *builder) given(d *task.Demand) bool {
	return d.Type == task.Context || b.asked(d)
}

// asked reports whether a demand is a symptom or the question of the task: the subject of the first step.
func (b *builder) asked(d *task.Demand) bool {
	return d.Type == task.Symptom || d.Type == task.Question && d.ID[0] == 'T' && b.task.Kind == task.Investigate
}

// what returns the demand's own step. only: it has only the steps of its topics.
func (b *builder) what(d *task.Demand) (what doing, own, only bool) {
	k := b.task.Kind
	late := func(x doing) doing {
		switch {
		case reports(k) && (x.action == "writeDocument" || x.action == "writeReport" || x.action == "informPeople"):
			x.stage = rollout
		case (k == task.Investigate || k == task.Analysis) && x.stage == analyse:
			x.stage = work // comparing and gathering are the work itself
		case x.action == "test" && !technical(k):
			x.action = "verifyResult"
		case k == task.Incident && x.action == "writeDocument":
			x.stage = follow
		case k == task.Write && x.action == "obtainApproval":
			x.stage = rollout
		}
		return x
	}
	switch d.Type {
	case task.Deadline:
		return doing{"schedule", decide}, false, false
	case task.Question:
		return doing{"answerQuestion", analyse}, false, false
	case task.Action:
		x, known := byAct[d.Act]
		switch {
		case known && plain[d.Act] && !technical(k):
			x = byKind[k]
			if k == task.Buy {
				x = byKind[task.General]
			}
		case d.Act == "fix":
			x = byAct["change"]
		case d.Act == "investigate" && k == task.Fix:
			x = doing{"findCause", analyse}
		case d.Act == "investigate" && k == task.Incident:
			x = doing{"findCause", decide}
		case d.Act == "write" && d.About("report"):
			x = byTopic["report"]
		case d.Act == "regress" && k == task.Fix:
			x = doing{"writeFailingTest", decide}
		}
		if known {
			return late(x), true, false
		}
	case task.Prohibition:
		for _, topic := range d.Topics {
			if asks(k, topic) && measuredOnly[topic] {
				return doing{}, false, true
			}
		}
		if k == task.Buy {
			return byKind[k], false, false
		}
		return doing{"guardAgainst", verify}, false, false
	}
	if d.Rhythm() && !technical(k) {
		return doing{"keepRhythm", decide}, false, false
	}
	own = d.Own // an infinitive that is not in a list
	if x, ok := byAct[d.Act]; ok && passive[d.Act] && !own {
		return late(x), false, false
	}
	for _, topic := range d.Topics {
		if asks(k, topic) && measuredOnly[topic] && d.Act == "" {
			return doing{}, false, true
		}
		x, ok := byTopic[topic]
		switch {
		case !ok || eventTopics[topic] && k != task.Event:
			continue
		case topic == "report" && !reports(k) && k != task.Incident:
			continue
		case (k == task.Buy || k == task.Write) && topic != "report" && topic != "legal" && topic != "approval" && topic != "deadline":
			continue
		}
		return late(x), own, false
	}
	switch {
	case k == task.Write && d.About("i18n"):
		return byAct["translate"], own, false
	case d.Bounded() && (k == task.Write || k == task.Analysis || k == task.Investigate):
		return byAct["measure"], own, false
	case d.Bounded() && k == task.Learn:
		return doing{"schedule", decide}, own, false
	}
	return byKind[k], own, false
}

// goal adds the recipe of the kind of work around the demands.
func (b *builder) goal() {
	g := b.task.Goal
	for _, p := range recipes[b.task.Kind] {
		if p.when != nil && !p.when(b) {
			continue
		}
		s := b.shared[p.action]
		if s == nil && !p.goal {
			s = b.byAct(p.act)
		}
		if s == nil {
			s = b.add(doing{p.action, p.stage}, g)
			if p.action == "reconcile" {
				b.shared[p.action] = s
			}
		} else if !slices.Contains(s.covers, g) {
			s.covers = append(s.covers, g)
		}
		if p.goal {
			d := b.task.Demands[g]
			// In Chinese, the recipient and the date come first.
			s.own = d.Own || d.Act != "" && b.task.Language == words.Chinese
			if p.action == "buildCore" && d.Act != "build" && d.Act != "design" && d.Act != "" && b.task.Kind == task.Build {
				if x := byAct[d.Act]; x.stage == work {
					s.action = x.action
				}
			}
			b.core, b.first[g], b.main[g], b.last[g] = s, s, s, s
			s.closes = true
		}
		if n := len(b.chain); n > 0 {
			b.link(b.chain[n-1], s)
		}
		b.chain = append(b.chain, s)
	}
	b.goalExtras(g)
	b.design()
}

// goalExtras adds the steps of the topics that the goal itself names.
func (b *builder) goalExtras(g int) {
	if k := b.task.Kind; k != task.Build && k != task.Migrate {
		return
	}
	for _, topic := range b.task.Demands[g].Topics {
		x := extras[topic]
		if x.before.action != "" {
			s := b.once(x.before, g)
			b.link(s, b.core)
		}
		if a := x.after; a.action != "" {
			if a.stage == follow {
				b.link(b.core, b.once(a, g))
				continue
			}
			s := b.add(doing{a.action, a.stage}, g)
			s.closes = true
			if b.core.stage < rollout {
				b.link(b.core, s)
			} else {
				b.link(s, b.core)
			}
		}
	}
}

// design makes the design step cover the demands that bind all parts.
func (b *builder) design() {
	for _, s := range b.chain {
		switch s.action {
		case "designSolution", "outline", "setCriteria", "settleFrame", "acceptWhole", "automateTests", "checkOutcome", "holdEvent":
		default:
			continue
		}
		for i, d := range b.task.Demands {
			if slices.Contains(s.covers, i) || !d.Required() || b.asked(d) {
				continue
			}
			binds := d.Type == task.Property || d.Type == task.Prohibition
			if s.action == "settleFrame" && len(d.Limits) == 0 && d.Due == "" || s.action == "holdEvent" && b.main[i] != nil && b.main[i].stage != work {
				continue
			}
			if binds || (s.action == "acceptWhole" || s.action == "checkOutcome") && d.Own || s.action == "holdEvent" && d.Own || s.action == "settleFrame" {
				s.covers = append(s.covers, i)
			}
		}
	}
}

// leftover handles demands that describe facts: symptoms go to the step that investigates them first, the
// rest to one step of its own.
func (b *builder) leftover() {
	var given []int
	for i, d := range b.task.Demands {
		switch {
		case i == b.task.Goal:
		case b.asked(d):
			s := b.chain[0]
			s.covers = append(s.covers, i)
		case b.given(d):
			given = append(given, i)
		}
	}
	if len(given) == 0 {
		return
	}
	s := b.add(doing{"reviewContext", prepare}, given...)
	b.link(s, b.chain[0])
}

// uncovered adds a step for every demand that has none so far, so that nothing requested is dropped,
// however well it was understood.
func (b *builder) uncovered() {
	covered := make([]bool, len(b.task.Demands))
	for _, s := range b.drafts {
		for _, i := range s.covers {
			covered[i] = true
		}
	}
	for i, ok := range covered {
		if ok {
			continue
		}
		s := b.add(byKind[task.General], i)
		s.closes = true
		b.first[i], b.main[i], b.last[i] = s, s, s
	}
}
