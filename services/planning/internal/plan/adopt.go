package plan

import (
	"errors"
	"slices"
	"strings"
)

// Repairs counts what Adopt had to change in steps.
type Repairs struct {
	Covered    int // requirements that no step covered, and got one
	Misplaced  int // dependencies dropped: on nothing, on themselves or in a circle
	Ordered    int // dependencies added, as the task orders
	Acceptance int // checks that lacked a quantity or date of the requirement
}

// None reports whether nothing had to be changed.
func (r Repairs) None() bool { return r == Repairs{} }

// Adopt puts steps that somebody else drafted in place of those of a plan, and
// holds them to what the plan knows: every requirement is covered, no circle,
// the order of the text, and its quantities and dates in the checks. What can
// be mended is; an error says what cannot, and leaves the plan as it was. Ids
// are positive.
func (p *Plan) Adopt(steps []Step) (Repairs, error) {
	a := adoption{plan: p, steps: steps, at: make(map[int]int, len(steps))}
	for i, s := range steps {
		if _, twice := a.at[s.ID]; twice {
			return Repairs{}, errors.New("two of its steps have one id")
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

// adoption is one draft on its way into a plan.
type adoption struct {
	plan    *Plan
	steps   []Step
	at      map[int]int // by id
	repairs Repairs
}

// coverage drops requirements that are not the task's, gives steps without
// any to the goal, and takes steps of the plan for what no step covers.
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
	// The plan's own steps for what is missing, in its order; the last of a
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

// free is an id that no step has.
func (a *adoption) free() int {
	id := len(a.steps) + 1
	for {
		if _, taken := a.at[id]; !taken {
			return id
		}
		id++
	}
}

// dependencies drops those on nothing, on the step itself, and those that
// close a circle; that of the earlier step stays.
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

// depend lets a step wait for another, unless that cannot be.
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

// order lets what the text puts behind something wait for it. It is false
// where the draft has it the other way round.
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
		// The last step of the one before the last of the other.
		if !a.depend(then[len(then)-1], a.steps[first[len(first)-1]].ID) {
			return false
		}
		a.repairs.Ordered++
	}
	return true
}

// only are the steps that cover one requirement and not another.
func (a *adoption) only(id, not string) []int {
	var out []int
	for i, s := range a.steps {
		if slices.Contains(s.Covers, id) && !slices.Contains(s.Covers, not) {
			out = append(out, i)
		}
	}
	return out
}

// acceptance adds the quantities and the date of a requirement to the check of
// its last step, where no step of it has them.
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
