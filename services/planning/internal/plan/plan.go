// Package plan makes a plan of a task that has been read: it derives steps
// from each demand, orders them, groups them into phases and says of each how
// to tell that it is done. It also checks plans and says what can start next.
// docs/planning.md describes the method.
package plan

// Step is one thing to do.
type Step struct {
	// ID counts from 1; a step depends on lower ones only.
	ID int `json:"id"`
	// Action is what kind of step it is, one of Actions in our own plans.
	Action      string `json:"action"`
	Description string `json:"description"`
	// Covers are ids of requirements.
	Covers    []string `json:"covers,omitempty"`
	DependsOn []int    `json:"dependsOn,omitempty"`
	Phase     int      `json:"phase,omitzero"`
	// Check says how to tell that the step is done.
	Check string `json:"check,omitzero"`
}

// Phase is a run of steps that do not depend on each other.
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
	stages map[string]stage // of the actions in it
}

// Stages order steps that nothing in the text orders.
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

// MaxSteps is the most steps a plan may have: ours, a model's, and those sent
// to be checked.
const MaxSteps = 500
