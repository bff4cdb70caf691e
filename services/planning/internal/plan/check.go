package plan

import (
	"fmt"
	"slices"
)

// Codes of problems.
const (
	DuplicateID       = "duplicate_id"
	UnknownDependency = "unknown_dependency"
	Cycle             = "cycle"
	UnknownCoverage   = "unknown_requirement"
	NotCovered        = "not_covered"
	Empty             = "empty"
)

// Problem is something wrong with a plan.
type Problem struct {
	Code string
	// Step is the id of the step concerned, 0 if none is.
	Step int
	// Requirement is the id of the requirement concerned, or "".
	Requirement string
	Message     string
}

// maxProblems is how many problems are reported at once.
const maxProblems = 100

// Validate checks that ids are unique, that dependencies exist and form no cycle, and that the steps cover
// exactly the given requirements. If requirements is nil, coverage is not checked.
func Validate(steps []Step, requirements []string) []Problem {
	var out []Problem
	add := func(p Problem) {
		if len(out) < maxProblems {
			out = append(out, p)
		}
	}
	at := make(map[int]int, len(steps))
	for i, s := range steps {
		if _, ok := at[s.ID]; ok {
			add(Problem{Code: DuplicateID, Step: s.ID, Message: fmt.Sprintf("two steps have the id %d", s.ID)})
			continue
		}
		at[s.ID] = i
		if s.Action == "" || s.Description == "" {
			add(Problem{Code: Empty, Step: s.ID, Message: fmt.Sprintf("step %d needs an action and a description", s.ID)})
		}
	}
	known := map[string]bool{}
	for _, id := range requirements {
		known[id] = true
	}
	covered := map[string]bool{}
	for _, s := range steps {
		for _, d := range s.DependsOn {
			if _, ok := at[d]; !ok {
				add(Problem{Code: UnknownDependency, Step: s.ID, Message: fmt.Sprintf("step %d depends on %d, which is not in the plan", s.ID, d)})
			}
		}
		for _, id := range s.Covers {
			covered[id] = true
			if requirements != nil && !known[id] {
				add(Problem{Code: UnknownCoverage, Step: s.ID, Requirement: id, Message: fmt.Sprintf("step %d covers %q, which is not a requirement", s.ID, id)})
			}
		}
	}
	for _, id := range requirements {
		if !covered[id] {
			add(Problem{Code: NotCovered, Requirement: id, Message: fmt.Sprintf("no step covers %q", id)})
		}
	}
	if _, circle := levels(steps, at); len(circle) > 0 {
		add(Problem{Code: Cycle, Step: circle[0], Message: fmt.Sprintf("steps wait for each other: %v", circle)})
	}
	return out
}

// levels returns the depth of each step, from 1, and the ids of the steps that are in a cycle or depend on
// one. Unknown dependencies are ignored.
func levels(steps []Step, at map[int]int) (depth []int, circle []int) {
	depth = make([]int, len(steps))
	open := make([]int, len(steps))
	next := make([][]int, len(steps))
	for i, s := range steps {
		for _, d := range s.DependsOn {
			if j, ok := at[d]; ok {
				next[j] = append(next[j], i)
				open[i]++
			}
		}
	}
	var ready []int
	for i, n := range open {
		if n == 0 {
			depth[i] = 1
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		for _, j := range next[i] {
			depth[j] = max(depth[j], depth[i]+1)
			if open[j]--; open[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	for i, n := range open {
		if n > 0 {
			circle = append(circle, steps[i].ID)
		}
	}
	slices.Sort(circle)
	return depth, circle
}

// Waiting is a step and the steps it waits for.
type Waiting struct {
	ID       int
	WaitsFor []int
}

// Next returns the steps of a valid plan that can start after those in done, and the steps that the others
// wait for.
func Next(steps []Step, done []int) (ready []Step, waiting []Waiting) {
	isDone := map[int]bool{}
	for _, id := range done {
		isDone[id] = true
	}
	for _, s := range steps {
		if isDone[s.ID] {
			continue
		}
		var open []int
		for _, d := range s.DependsOn {
			if !isDone[d] && !slices.Contains(open, d) {
				open = append(open, d)
			}
		}
		if len(open) == 0 {
			ready = append(ready, s)
		} else {
			waiting = append(waiting, Waiting{s.ID, open})
		}
	}
	return ready, waiting
}

// Replace replaces the steps of a plan by others, which must be valid. It sorts them by dependency and
// renumbers them.
func (p *Plan) Replace(steps []Step) {
	at := make(map[int]int, len(steps))
	for i, s := range steps {
		at[s.ID] = i
	}
	depth, _ := levels(steps, at)
	for i := range steps {
		steps[i].Phase = depth[i]
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Phase - b.Phase })
	id := make(map[int]int, len(steps))
	for i, s := range steps {
		id[s.ID] = i + 1
	}
	for i := range steps {
		s := &steps[i]
		s.ID = i + 1
		deps := make([]int, 0, len(s.DependsOn))
		for _, d := range s.DependsOn {
			deps = append(deps, id[d])
		}
		slices.Sort(deps)
		s.DependsOn = slices.Compact(deps)
	}
	p.Steps = steps
	p.Cover()
	p.phase()
}
