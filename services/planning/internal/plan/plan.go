// Package plan makes the plan of a task that has been read. It derives steps from each demand, orders
// them, groups them into phases and writes for each how to tell that it is done. It also checks plans and
// finds the steps that can start next. Start at Make; docs/reference/services/planning.md describes the method.
package plan

// Step is one step of a plan.
type Step struct {
	// ID counts from 1; a step depends on lower ones only.
	ID int `json:"id"`
	// Action is the kind of step, one of Actions in our own plans.
	Action      string `json:"action"`
	Description string `json:"description"`
	// Covers are ids of requirements.
	Covers    []string `json:"covers,omitempty"`
	DependsOn []int    `json:"dependsOn,omitempty"`
	Phase     int      `json:"phase,omitzero"`
	// Check says how to tell that the step is done.
	Check string `json:"check,omitzero"`
}

// Phase is a sequence of steps that do not depend on each other.
type Phase struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Steps []int  `json:"steps"`
}

// Requirement is a demand and the steps that cover it.
type Requirement struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Type  string `json:"type"`
	Steps []int  `json:"steps"`
}

// Plan is a whole plan.
type Plan struct {
	Steps        []Step
	Phases       []Phase
	Requirements []Requirement

	w      *writer
	stages map[string]stage // by action
}

// stage orders steps that the text does not order.
type stage int

const (
	prepare stage = iota
	analyse
	decide
	work
	verify
	rollout
	follow
)

// MaxSteps is the largest number of steps of a plan: one of ours, a model's, or one sent to be checked.
const MaxSteps = 500
