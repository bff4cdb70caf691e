package plan

import (
	"slices"
	"strconv"

	"github.com/busbar-mcp/busbar/services/planning/internal/task"
)

// finish numbers the steps and writes their texts.
func (b *builder) finish() *Plan {
	w := newWriter(b)
	drafts := b.sorted()
	at := make(map[*draft]int, len(drafts))
	p := &Plan{w: w, stages: map[string]stage{}}
	for i, s := range drafts {
		at[s] = i
		p.stages[s.action] = s.stage
		step := Step{ID: i + 1, Action: s.action, Phase: s.depth}
		step.Description, step.Check = w.step(s)
		slices.Sort(s.covers)
		for _, j := range s.covers {
			step.Covers = append(step.Covers, b.task.Demands[j].ID)
		}
		for _, j := range waits(s, at) {
			step.DependsOn = append(step.DependsOn, j+1)
		}
		p.Steps = append(p.Steps, step)
	}
	for _, d := range b.task.Demands {
		p.Requirements = append(p.Requirements, Requirement{ID: d.ID, Text: d.Text, Type: string(d.Type)})
	}
	p.Cover()
	p.phase()
	return p
}

// Cover fills in which steps cover which requirement.
func (p *Plan) Cover() {
	by := map[string][]int{}
	for _, s := range p.Steps {
		for _, id := range s.Covers {
			by[id] = append(by[id], s.ID)
		}
	}
	for i := range p.Requirements {
		r := &p.Requirements[i]
		r.Steps = by[r.ID]
	}
}

// phase groups the steps, which are in the order of their phases, and names each group after the stage of
// most of its actions.
func (p *Plan) phase() {
	p.Phases = nil
	votes := map[stage]int{}
	for _, s := range p.Steps {
		if n := len(p.Phases); n == 0 || p.Phases[n-1].ID != s.Phase {
			p.Phases = append(p.Phases, Phase{ID: s.Phase})
			clear(votes)
		}
		last := &p.Phases[len(p.Phases)-1]
		last.Steps = append(last.Steps, s.ID)
		of, known := p.stages[s.Action]
		if !known {
			of = work
		}
		votes[of]++
		last.Name = p.w.phase(winner(votes))
	}
	// Numbers distinguish phases of the same name.
	total, seen := map[string]int{}, map[string]int{}
	for _, ph := range p.Phases {
		total[ph.Name]++
	}
	for i, ph := range p.Phases {
		if total[ph.Name] > 1 {
			seen[ph.Name]++
			p.Phases[i].Name += " " + strconv.Itoa(seen[ph.Name])
		}
	}
}

// winner returns the stage with most votes; among equals, the earlier.
func winner(votes map[stage]int) stage {
	best, top := prepare, 0
	for s := prepare; s <= follow; s++ {
		if votes[s] > top {
			best, top = s, votes[s]
		}
	}
	return best
}

var phaseNames = map[stage]string{prepare: "_prepare", analyse: "_analyse", decide: "_decide", work: "_make", verify: "_verify", rollout: "_rollout", follow: "_follow"}

func (w *writer) phase(s stage) string {
	name := phaseNames[s]
	if s == rollout {
		switch k := w.b.task.Kind; {
		case k == task.Write:
			name = "_rollout_write"
		case k == task.Event:
			name = "_rollout_event"
		case k == task.Buy:
			name = "_rollout_buy"
		case reports(k):
			name = "_rollout_report"
		}
	}
	return w.our(w.frames[name].description)
}
