package plan

import (
	"errors"
	"slices"
	"strings"
)

// Repairs counts what Adopt had to change in steps.
type Repairs struct {
	Covered    int // requirements that no step covered; each got one
	Misplaced  int // dependencies dropped: on unknown steps, on themselves or in a cycle
	Ordered    int // dependencies added, because the task demands the order
	Acceptance int // checks that lacked a quantity or date of the requirement
}

// None reports whether nothing had to be changed.
func (r Repairs) None() bool { return r == Repairs{} }

// Adopt replaces the steps of a plan by steps that somebody else drafted, and enforces what the plan
// knows: every requirement is covered, there is no cycle, the order of the text is kept, and its
// quantities and dates are in the checks. It repairs what it can; an error says why the draft cannot be
// repaired, and leaves the plan unchanged. Ids must be positive.
func (p *Plan) Adopt(steps []Step) (Repairs, error) {
	a := adoption{plan: p, steps: steps, at: make(map[int]int, len(steps))}
	for i, s := range steps {
		if _, twice := a.at[s.ID]; twice {
			return Repairs{}, errors.New("two of its steps have the same id")
		}
		a.at[s.ID] = i
	}
	a.coverage()
	a.dependencies()
	if !a.order() {
		return Repairs{}, errors.New("its order contradicts the task")
	}
	a.acceptance()
	if len(a.steps) > MaxSteps {
		return Repairs{}, errors.New("it has too many steps")
	}
	var ids []string
	for _, r := range p.Requirements {
		ids = append(ids, r.ID)
	}
	if problems := Validate(a.steps, ids); len(problems) > 0 {
		return Repairs{}, errors.New("it breaks a rule of plans (" + problems[0].Code + ")")
	}
	p.Replace(a.steps)
	return a.repairs, nil
}

// adoption is the state of adopting one draft.
type adoption struct {
	plan    *Plan
	steps   []Step
	at      map[int]int // by id
	repairs Repairs
}

// coverage drops requirements that are not the task's, assigns steps without any to the goal, and adds the
// plan's own steps for uncovered requirements.
func (a *adoption) coverage() {
	demands := a.plan.w.b.task.Demands
	goal := demands[a.plan.w.b.task.Goal].ID
	missing, known := make(map[string]bool, len(demands)), make(map[string]bool, len(demands))
	for _, d := range demands {
		missing[d.ID], known[d.ID] = true, true
	}
	for i := range a.steps {
		s := &a.steps[i]
		covers := slices.Clone(s.Covers)
		covers = slices.DeleteFunc(covers, func(id string) bool { return !known[id] })
		slices.Sort(covers)
		if covers = slices.Compact(covers); len(covers) == 0 {
			covers = []string{goal}
		}
		s.Covers = covers
		for _, id := range covers {
			delete(missing, id)
		}
	}
	var core []int // steps of the draft for the goal
	for _, s := range a.steps {
		if slices.Contains(s.Covers, goal) {
			core = append(core, s.ID)
		}
	}
	a.repairs.Covered = len(missing)
	// The plan's own steps for uncovered requirements, in its order; the last step of a
	// requirement has its check.
	own := map[int]int{} // id in the plan → id in the draft
	for _, s := range a.plan.Steps {
		covers := slices.DeleteFunc(slices.Clone(s.Covers), func(id string) bool { return !missing[id] })
		if len(covers) == 0 {
			continue
		}
		next := Step{ID: a.free(), Action: s.Action, Description: s.Description, Check: s.Check, Covers: covers}
		for _, d := range s.DependsOn {
			if id, ok := own[d]; ok {
				next.DependsOn = append(next.DependsOn, id)
			}
		}
		if a.plan.stages[s.Action] >= verify && len(next.DependsOn) == 0 {
			next.DependsOn = slices.Clone(core)
		}
		own[s.ID] = next.ID
		a.at[next.ID] = len(a.steps)
		a.steps = append(a.steps, next)
	}
}

// free returns an unused id.
func (a *adoption) free() int {
	id := len(a.steps) + 1
	for {
		if _, taken := a.at[id]; !taken {
			return id
		}
		id++
	}
}

// dependencies drops dependencies on unknown steps, on the step itself, and those that close a cycle; in a
// cycle, the earlier step keeps its own.
func (a *adoption) dependencies() {
	wanted := make([][]int, len(a.steps))
	for i := range a.steps {
		wanted[i] = slices.Clone(a.steps[i].DependsOn)
		slices.Sort(wanted[i])
		wanted[i] = slices.Compact(wanted[i])
		a.steps[i].DependsOn = nil
	}
	for i, all := range wanted {
		for _, id := range all {
			if !a.depend(i, id) {
				a.repairs.Misplaced++
			}
		}
	}
}

// depend makes a step wait for another, unless that would close a cycle.
func (a *adoption) depend(i, on int) bool {
	j, ok := a.at[on]
	if !ok || j == i || a.waits(j, i) {
		return false
	}
	if !slices.Contains(a.steps[i].DependsOn, on) {
		a.steps[i].DependsOn = append(a.steps[i].DependsOn, on)
	}
	return true
}

// waits reports whether step i waits for step j, directly or not.
func (a *adoption) waits(i, j int) bool {
	seen := make([]bool, len(a.steps))
	open := []int{i}
	for len(open) > 0 {
		k := open[len(open)-1]
		open = open[:len(open)-1]
		if k == j {
			return true
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		for _, d := range a.steps[k].DependsOn {
			open = append(open, a.at[d])
		}
	}
	return false
}

// order adds the dependencies that the text demands. It returns false if the draft contradicts them.
func (a *adoption) order() bool {
	demands := a.plan.w.b.task.Demands
	for _, pair := range a.plan.w.b.orders {
		before, after := demands[pair[0]].ID, demands[pair[1]].ID
		first, then := a.only(before, after), a.only(after, before)
		if len(first) == 0 || len(then) == 0 {
			continue
		}
		kept := slices.ContainsFunc(then, func(i int) bool {
			return slices.ContainsFunc(first, func(j int) bool { return a.waits(i, j) })
		})
		if kept {
			continue
		}
		// The last step of the one must come before the last step of the other.
		if !a.depend(then[len(then)-1], a.steps[first[len(first)-1]].ID) {
			return false
		}
		a.repairs.Ordered++
	}
	return true
}

// only returns the steps that cover one requirement and not another.
func (a *adoption) only(id, not string) []int {
	var out []int
	for i, s := range a.steps {
		if slices.Contains(s.Covers, id) && !slices.Contains(s.Covers, not) {
			out = append(out, i)
		}
	}
	return out
}

// acceptance adds the quantities and the date of a requirement to the check of its last step, unless one
// of its steps already has them.
func (a *adoption) acceptance() {
	for _, d := range a.plan.w.b.task.Demands {
		if len(d.Limits) == 0 && d.Due == "" {
			continue
		}
		last := -1
		var said strings.Builder
		for i, s := range a.steps {
			if slices.Contains(s.Covers, d.ID) {
				last = i
				said.WriteString(s.Check + "\n")
			}
		}
		missing := d.Due != "" && !strings.Contains(said.String(), d.Due)
		for _, l := range d.Limits {
			missing = missing || !strings.Contains(said.String(), l.Text)
		}
		if missing && last >= 0 {
			a.steps[last].Check += a.plan.w.conditions(d)
			a.repairs.Acceptance++
		}
	}
}
