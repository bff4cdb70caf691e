package planning

import "github.com/busbar-mcp/busbar/services/planning/internal/plan"

// GenerateIn holds the arguments of generatePlan.
type GenerateIn struct {
	Task         string   `json:"task"`
	Requirements []string `json:"requirements,omitempty"`
	// Language is en, pl, ru or zh; "" means the task's.
	Language string `json:"language,omitzero"`
	Refine   bool   `json:"refine,omitzero"`
	// Method is rules or model; "" means rules.
	Method string `json:"method,omitzero"`
}

// GenerateOut is the result of generatePlan.
type GenerateOut struct {
	Plan         []Step        `json:"plan" jsonschema:"The steps, in an order in which they can be done"`
	Phases       []Phase       `json:"phases" jsonschema:"Groups of steps; the steps of one phase do not depend on each other and can run in parallel"`
	Requirements []Requirement `json:"requirements" jsonschema:"The clauses of task and requirements, and the steps that cover them"`
	Language     string        `json:"language" jsonschema:"Language of the plan: en, pl, ru or zh"`
	Kind         string        `json:"kind" jsonschema:"Kind of work: build, fix, migrate, investigate, write, analysis, incident, event, learn, buy or general"`
	Evidence     []string      `json:"evidence" jsonschema:"Words of the input that determined the kind"`
	Refined      bool          `json:"refined" jsonschema:"Whether the client's model improved the plan"`
	Method       string        `json:"method,omitzero" jsonschema:"How the plan was made, if the caller asked for a model: model, or rules with a note that says why"`
	Note         string        `json:"note,omitzero" jsonschema:"A remark on how the plan was made"`
}

// Step is one step of a plan.
type Step struct {
	ID          int      `json:"id" jsonschema:"Number of the step, from 1"`
	Action      string   `json:"action" jsonschema:"Kind of step, such as designSolution, implement or measureUnderLoad"`
	Description string   `json:"description" jsonschema:"What to do"`
	Covers      []string `json:"covers" jsonschema:"Ids of the requirements that the step covers"`
	DependsOn   []int    `json:"dependsOn" jsonschema:"Ids of the steps that must be done before; always lower than the step's own"`
	Phase       int      `json:"phase" jsonschema:"Id of the step's phase"`
	Check       string   `json:"check" jsonschema:"How to tell that the step is done"`
}

// Phase is a group of steps that can run in parallel.
type Phase struct {
	ID    int    `json:"id" jsonschema:"Number of the phase, from 1"`
	Name  string `json:"name" jsonschema:"Name, in the language of the plan"`
	Steps []int  `json:"steps" jsonschema:"Ids of its steps"`
}

// Requirement is one clause of the input.
type Requirement struct {
	ID    string `json:"id" jsonschema:"T3 is the third clause of the task, R2 the second requirement, R2.1 its first clause if it has several"`
	Text  string `json:"text" jsonschema:"The clause"`
	Type  string `json:"type" jsonschema:"action, property, prohibition, deadline, question, symptom or context"`
	Steps []int  `json:"steps" jsonschema:"Ids of the steps that cover it"`
}

// PlanStep is a step of a plan given to validatePlan and nextSteps, ours or somebody
// else's. Other fields of generatePlan's steps are accepted and ignored.
type PlanStep struct {
	ID          int      `json:"id" jsonschema:"Number of the step"`
	Action      string   `json:"action" jsonschema:"Kind of step"`
	Description string   `json:"description" jsonschema:"What to do"`
	Covers      []string `json:"covers,omitempty" jsonschema:"Ids of the requirements that the step covers"`
	DependsOn   []int    `json:"dependsOn,omitempty" jsonschema:"Ids of the steps that must be done before"`
	Phase       int      `json:"phase,omitzero" jsonschema:"Not used"`
	Check       string   `json:"check,omitzero" jsonschema:"Not used"`
}

// ValidateIn holds the arguments of validatePlan.
type ValidateIn struct {
	Plan []PlanStep `json:"plan" jsonschema:"The steps, at most 500"`
	// Requirements: if nil, coverage is not checked.
	Requirements []string `json:"requirements,omitempty" jsonschema:"Ids of the requirements that the steps must cover, such as T1 and R2; if omitted, coverage is not checked"`
}

// ValidateOut is the result of validatePlan.
type ValidateOut struct {
	Valid    bool      `json:"valid" jsonschema:"true if there are no problems"`
	Problems []Problem `json:"problems" jsonschema:"Problems of the plan, at most 100"`
}

// Problem is something wrong with a plan.
type Problem struct {
	Code        string `json:"code" jsonschema:"duplicate_id, empty, unknown_dependency, cycle, unknown_requirement or not_covered"`
	Step        int    `json:"step,omitzero" jsonschema:"Id of the step"`
	Requirement string `json:"requirement,omitzero" jsonschema:"Id of the requirement"`
	Message     string `json:"message" jsonschema:"The problem in words"`
}

// NextIn holds the arguments of nextSteps.
type NextIn struct {
	Plan []PlanStep `json:"plan" jsonschema:"The steps, at most 500"`
	Done []int      `json:"done,omitempty" jsonschema:"Ids of the finished steps"`
}

// NextOut is the result of nextSteps.
type NextOut struct {
	Ready    []ReadyStep   `json:"ready" jsonschema:"Steps that can start now, in parallel"`
	Waiting  []WaitingStep `json:"waiting" jsonschema:"Steps that cannot start yet"`
	Complete bool          `json:"complete" jsonschema:"true if all steps are done"`
}

// ReadyStep is a step that can start.
type ReadyStep struct {
	ID          int    `json:"id" jsonschema:"Number of the step"`
	Action      string `json:"action" jsonschema:"Kind of step"`
	Description string `json:"description" jsonschema:"What to do"`
}

// WaitingStep is a step that cannot start, and why.
type WaitingStep struct {
	ID       int   `json:"id" jsonschema:"Number of the step"`
	WaitsFor []int `json:"waitsFor" jsonschema:"Ids of the steps that are not done yet"`
}

func (s PlanStep) step() plan.Step {
	return plan.Step{ID: s.ID, Action: s.Action, Description: s.Description, Covers: s.Covers, DependsOn: s.DependsOn}
}

// show converts a plan to the tool's result.
func (out *GenerateOut) show(p *plan.Plan) {
	out.Plan, out.Phases, out.Requirements = []Step{}, []Phase{}, []Requirement{}
	for _, s := range p.Steps {
		out.Plan = append(out.Plan, Step(s))
	}
	for _, ph := range p.Phases {
		out.Phases = append(out.Phases, Phase(ph))
	}
	for _, r := range p.Requirements {
		out.Requirements = append(out.Requirements, Requirement(r))
	}
}
