// Package planning is the service with the planning tools generatePlan, writePlan, validatePlan and
// nextSteps. A plan follows from the text of the task, without a model, by the method of docs/reference/services/planning.md:
// the same input gives the same bytes. If the caller asks for it and the client offers sampling, the
// client's model may draft or improve the plan, which then must pass the same checks. Start at New.
package planning

import (
	"context"
	_ "embed"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/planning/internal/plan"
	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

//go:embed schema/generatePlan.input.json
var generateInput []byte

// Limits of the tools' arguments.
const (
	maxInput        = 64 << 10 // bytes of UTF-8, task and requirements together
	maxRequirements = 100
)

// New makes the service "planning" with its tools.
func New(_ context.Context, env service.Env) (*service.Service, error) {
	s := service.New("planning", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Plans in English, Polish, Russian and Chinese: steps that cover every requirement, their order, and a check for each"))
	service.AddTool(s, service.Tool{
		Name:  "generatePlan",
		Title: "Generate plan",
		Description: "Makes an implementation plan for a task and its requirements: software, migrations, defects, incidents, research, texts, data analysis, events, learning, purchases. " +
			"Each step names the requirements it covers, the steps it depends on, and an acceptance check with the task's own quantities and conditions. The plan is in the language of the task.",
		InputSchema: generateInput,
		ReadOnly:    true, Idempotent: true,
	}, generate)
	service.AddTool(s, service.Tool{
		Name:        "writePlan",
		Title:       "Write plan",
		Description: "Makes a plan like generatePlan and writes it as a resource, so that others can read it, subscribe to it and tick off its steps.",
		InputSchema: writeInput, CallsTools: true,
	}, write)
	service.AddTool(s, service.Tool{
		Name:        "validatePlan",
		Title:       "Validate plan",
		Description: "Checks a plan: ids are unique, dependencies exist and form no cycle, and steps cover every requirement.",
		ReadOnly:    true, Idempotent: true,
	}, validate)
	service.AddTool(s, service.Tool{
		Name:        "nextSteps",
		Title:       "Next steps",
		Description: "Lists the steps of a plan that can start now, given the finished ones, and what the others wait for.",
		ReadOnly:    true, Idempotent: true,
	}, next)
	return s, nil
}

func generate(ctx context.Context, call *service.Call, in GenerateIn) (GenerateOut, error) {
	if err := check(in); err != nil {
		return GenerateOut{}, err
	}
	t := task.Read(in.Task, in.Requirements, words.Language(in.Language))
	if ctx.Err() != nil {
		return GenerateOut{}, ctx.Err()
	}
	p := plan.Make(t)
	out := GenerateOut{Language: string(t.Language), Kind: string(t.Kind), Evidence: []string{}}
	out.Evidence = append(out.Evidence, t.Evidence...)
	if !t.Known {
		out.Note = "The task is not in English, Polish, Russian or Chinese (en, pl, ru, zh), so its words were understood only in part."
	}
	if in.Method == byModel {
		method, note, err := draft(call, t, p)
		if err != nil {
			return GenerateOut{}, err
		}
		out.Method = method
		out.Note = strings.TrimSpace(out.Note + " " + note)
	} else if in.Refine {
		refined, note, err := refine(call, t, p)
		if err != nil {
			return GenerateOut{}, err
		}
		out.Refined = refined
		out.Note = strings.TrimSpace(out.Note + " " + note)
	}
	out.show(p)
	return out, nil
}

// check refuses arguments that cannot be planned.
func check(in GenerateIn) error {
	if len(in.Requirements) > maxRequirements {
		return service.Errorf("there are %d requirements; the limit is %d; plan in parts", len(in.Requirements), maxRequirements)
	}
	size := len(in.Task)
	for i, r := range in.Requirements {
		size += len(r)
		if !task.HasWord(r) {
			return service.Errorf("requirement %d is empty; remove it or fill it in", i+1)
		}
	}
	if size > maxInput {
		return service.Errorf("task and requirements have %d bytes of UTF-8; the limit is %d (64 KiB); plan in parts", size, maxInput)
	}
	if !task.HasWord(in.Task) {
		return service.Errorf("the task is empty; describe the work")
	}
	return nil
}

func validate(_ context.Context, _ *service.Call, in ValidateIn) (ValidateOut, error) {
	steps, err := taken(in.Plan)
	if err != nil {
		return ValidateOut{}, err
	}
	out := ValidateOut{Problems: []Problem{}}
	for _, p := range plan.Validate(steps, in.Requirements) {
		out.Problems = append(out.Problems, Problem(p))
	}
	out.Valid = len(out.Problems) == 0
	return out, nil
}

func next(_ context.Context, _ *service.Call, in NextIn) (NextOut, error) {
	steps, err := taken(in.Plan)
	if err != nil {
		return NextOut{}, err
	}
	if problems := plan.Validate(steps, nil); len(problems) > 0 {
		return NextOut{}, service.Errorf("the plan has an error: %s; validatePlan lists all problems", problems[0].Message)
	}
	known := map[int]bool{}
	for _, s := range steps {
		known[s.ID] = true
	}
	for _, id := range in.Done {
		if !known[id] {
			return NextOut{}, service.Errorf("done contains step %d, which is not in the plan", id)
		}
	}
	ready, waiting := plan.Next(steps, in.Done)
	out := NextOut{Ready: []ReadyStep{}, Waiting: []WaitingStep{}, Complete: len(ready)+len(waiting) == 0}
	for _, s := range ready {
		out.Ready = append(out.Ready, ReadyStep{s.ID, s.Action, s.Description})
	}
	for _, w := range waiting {
		out.Waiting = append(out.Waiting, WaitingStep(w))
	}
	return out, nil
}

// taken limits the size of a received plan.
func taken(in []PlanStep) ([]plan.Step, error) {
	if len(in) == 0 {
		return nil, service.Errorf("the plan has no steps; give at least one")
	}
	if len(in) > plan.MaxSteps {
		return nil, service.Errorf("the plan has %d steps; the limit is %d; check it in parts", len(in), plan.MaxSteps)
	}
	steps := make([]plan.Step, len(in))
	for i, s := range in {
		steps[i] = s.step()
	}
	return steps, nil
}
