package plan_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/services/planning/internal/plan"
	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// Whatever a draft contains, a plan that adopted it is valid, and a plan that refused it is
// unchanged.
func FuzzAdopt(f *testing.F) {
	f.Add([]byte{1, 0, 2, 2, 1, 0, 3, 1, 2})
	f.Add([]byte{1, 1, 1, 1, 1, 1})
	f.Add([]byte{3, 4, 2, 4, 7, 3, 5, 9, 3})
	f.Fuzz(func(t *testing.T, draft []byte) {
		read := task.Read("Back up the data, then move it to the new server.", []string{"At most 5 minutes of downtime", "Tell everybody by 3 May"}, words.English)
		p := plan.Make(read)
		var ids []string
		for _, r := range p.Requirements {
			ids = append(ids, r.ID)
		}
		// Three bytes a step: its id, what it waits for, what it covers.
		var steps []plan.Step
		for ; len(draft) >= 3 && len(steps) < 100; draft = draft[3:] {
			s := plan.Step{ID: int(draft[0]) + 1, Action: "act", Description: "Do it", Check: "It is done", DependsOn: []int{int(draft[1]), int(draft[2])}}
			if i := int(draft[2]); i < len(ids) {
				s.Covers = []string{ids[i], "R9"}
			}
			steps = append(steps, s)
		}
		if len(steps) == 0 {
			t.Skip()
		}
		before := len(p.Steps)
		if _, err := p.Adopt(steps); err != nil && len(p.Steps) != before {
			t.Error("a refused draft changed the plan")
		}
		if problems := plan.Validate(p.Steps, ids); len(problems) > 0 {
			t.Errorf("%+v", problems)
		}
	})
}
