package planning_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/services/planning"
)

// draftable has the requirements T1, T2 (after T1), R1 with a limit, and R2.
var draftable = arguments{
	"task": "Back up the orders, then move the shop to a new server.", "requirements": []string{"At most 10 minutes of downtime", "Tell the customers"}, "method": "model",
}

func TestDraft(t *testing.T) {
	t.Parallel()
	c := start(t)
	step := func(id int, description, covers, deps, check string) string {
		return fmt.Sprintf(`{"id":%d,"action":"doIt","description":%q,"covers":%s,"dependsOn":%s,"check":%q}`, id, description, covers, deps, check)
	}
	whole := func(steps ...string) string { return `{"plan":[` + strings.Join(steps, ",") + `]}` }
	backup := step(1, "Copy the orders to another disk", `["T1"]`, `[]`, "A restore of the copy worked")
	move := step(2, "Move the shop over night", `["T2"]`, `[1]`, "The shop runs on the new server")
	down := step(3, "Rehearse the move with a clock", `["R1"]`, `[1]`, "It took 10 minutes or less")
	tell := step(4, "Write to the customers", `["R2"]`, `[]`, "Everybody has the letter")
	for name, tt := range map[string]struct {
		answer, method, note string
		wants                []string // in the plan, as its steps are printed
	}{
		"a draft that keeps the rules": {whole(backup, move, down, tell), "model", "", []string{"Move the shop over night", "It took 10 minutes"}},
		"a requirement left out":       {whole(backup, move, down), "model", "requirements without a step (1)", []string{"Move the shop over night", "Tell the customers"}},
		"a circle": {whole(backup, move, step(3, "Rehearse the move", `["R1"]`, `[3,1,9]`, "It took 10 minutes"), tell), "model",
			"on unknown steps or in a cycle (2)", []string{"Rehearse the move"}},
		"an order not kept": {whole(backup, step(2, "Move the shop over night", `["T2"]`, `[]`, "It runs"), down, tell), "model", "violations of the task's order (1)", nil},
		"a check without its quantity": {whole(backup, move, step(3, "Rehearse the move", `["R1"]`, `[1]`, "It was short"), tell), "model",
			"without the quantity or date of their requirement (1)", []string{"It was short Measured: ≤ 10 minutes."}},
		"requirements that are none": {whole(backup, move, down, step(4, "Write to the customers", `["R2","R9"]`, `[]`, "Done")), "model", "", nil},
		"the wrong way round": {whole(step(1, "Copy the orders", `["T1"]`, `[2]`, "Done"), step(2, "Move the shop", `["T2"]`, `[]`, "Done"), down, tell), "rules",
			"its order contradicts the task", nil},
		"one id twice":     {whole(backup, backup, move, tell), "rules", "the same id", nil},
		"too few steps":    {whole(backup), "rules", "too few steps", nil},
		"no JSON":          {"Gladly!", "rules", "it is not the requested JSON", nil},
		"no check":         {whole(backup, move, down, step(4, "Write", `["R2"]`, `[]`, " ")), "rules", "a text of step 4 is empty", nil},
		"another language": {whole(step(1, "Сделать копию заказов на другом диске", `["T1","T2","R1","R2"]`, `[]`, "Восстановление прошло"), step(2, "Перенести магазин ночью", `["T2"]`, `[]`, "Работает")), "rules", "another language", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &client{t, c.caller}
			able := func(req *busv1.Request) { req.Client = &busv1.Client{Capabilities: []byte(`{"sampling":{}}`)} }
			frame, err := c.do("generatePlan", draftable, able)
			if err != nil || !strings.Contains(string(frame.GetInputRequired().GetInputRequests()), "Tell the customers") {
				t.Fatalf("%v, %v", frame, err)
			}
			response, err := json.Marshal(arguments{"draft": arguments{"role": "assistant", "model": "fake", "content": arguments{"type": "text", "text": tt.answer}}})
			if err != nil {
				t.Fatal(err)
			}
			frame, err = c.do("generatePlan", draftable, func(req *busv1.Request) {
				able(req)
				req.InputResponses, req.RequestState = response, frame.GetInputRequired().GetRequestState()
			})
			if err != nil {
				t.Fatal(err)
			}
			var out planning.GenerateOut
			c.structured(frame, &out)
			if out.Method != tt.method || !strings.Contains(out.Note, tt.note) || tt.note == "" && out.Note != "" {
				t.Errorf("method %q, note %q", out.Method, out.Note)
			}
			for _, want := range tt.wants {
				if !strings.Contains(fmt.Sprint(out.Plan), want) {
					t.Errorf("%q is missing from %v", want, out.Plan)
				}
			}
			held(t, out)
		})
	}
}

// held checks the properties of every plan, whoever drafted it.
func held(t *testing.T, out planning.GenerateOut) {
	t.Helper()
	for _, r := range out.Requirements {
		if len(r.Steps) == 0 {
			t.Errorf("%s is not covered", r.ID)
		}
	}
	first := map[string]int{}
	for i, s := range out.Plan {
		if s.ID != i+1 || s.Check == "" {
			t.Errorf("step %d: %+v", i+1, s)
		}
		for _, d := range s.DependsOn {
			if d >= s.ID {
				t.Errorf("step %d waits for %d", s.ID, d)
			}
		}
		for _, id := range s.Covers {
			if first[id] == 0 {
				first[id] = s.ID
			}
		}
	}
	if first["T1"] >= first["T2"] {
		t.Errorf("the move is step %d, the backup step %d", first["T2"], first["T1"])
	}
}

func TestDraftNeedsSampling(t *testing.T) {
	t.Parallel()
	c := start(t)
	var out planning.GenerateOut
	c.call("generatePlan", draftable, &out)
	if out.Method != "rules" || !strings.Contains(out.Note, "the client offers no sampling") || len(out.Plan) == 0 {
		t.Errorf("method %q, note %q", out.Method, out.Note)
	}
	held(t, out)
}
