// Package task reads a task. It cuts a task and its requirements into demands of one clause each, and
// finds in each the act, the topics, quantities, dates, conditions, prohibitions and order. Reading is a
// pure function of the text, linear in its length, and drops nothing but bare headings: text that cannot
// be separated stays together in one demand. Start at Read; docs/reference/services/planning.md describes the method.
package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// Type is the type of a demand.
type Type string

// The types of demands.
const (
	// Action is something to do.
	Action Type = "action"
	// Property is how something has to be.
	Property Type = "property"
	// Prohibition is something that must not happen.
	Prohibition Type = "prohibition"
	// Deadline is a date to meet.
	Deadline Type = "deadline"
	// Question is a question to answer.
	Question Type = "question"
	// Symptom is how a defect shows.
	Symptom Type = "symptom"
	// Context is background information.
	Context Type = "context"
)

// Task is a task that was read.
type Task struct {
	Language words.Language
	// Traditional: the text is Chinese in traditional characters.
	Traditional bool
	// Known is false if the language could not be determined.
	Known   bool
	Demands []*Demand
	// Goal is the index of the demand that states the purpose of the task.
	Goal int
	Kind Kind
	// Evidence lists the words that determined the kind.
	Evidence []string
}

// Demand is one clause of the input.
type Demand struct {
	// ID is "T3" for the third clause of the task, "R2" for the second
	// requirement, and "R2.1" where that has several clauses.
	ID   string
	Text string
	// Shown is Text without mere words of order, such as "then".
	Shown string
	Type  Type
	// Act is the first act named, or "". Own: the clause begins with it, so that it can
	// be a step in its own words.
	Act string
	Own bool
	// Topics are the topics of the demand, at most maxTopics.
	Topics []string
	Limits []Limit
	// Due is the date in the demand's words, or "".
	Due string
	// Condition is the subordinate clause of an "if" or "when", or "".
	Condition string
	// From and To are the two sides of a move.
	From, To string
	// Terms are the stems of words with meaning.
	Terms map[string]bool
	// Then, First and Last order the demand within its source. Before and After hold terms of the
	// demands that follow and precede it.
	Then, First, Last bool
	Before, After     Reference

	hits   []words.Hit
	tokens []words.Token
	skip   []bool // tokens without meaning
	actEnd int    // token after the act
	place  place
}

// Reference is the object of a word of order.
type Reference struct {
	// Terms are as in a demand, nil if there is no word of order.
	Terms map[string]bool
	// Kinds are the kinds of work that its words indicate: "before the cutover".
	Kinds map[Kind]bool
}

// Required reports whether the plan needs a step that covers the demand: true for every demand except
// background information.
func (d *Demand) Required() bool { return d.Type != Context }

// About reports whether the demand is about a topic.
func (d *Demand) About(topic string) bool {
	for _, t := range d.Topics {
		if t == topic {
			return true
		}
	}
	return false
}

// Limits of reading. Text beyond them is kept in coarser pieces.
const (
	maxTaskDemands = 60
	maxDemands     = 160
	maxTopics      = 2
	maxLimits      = 4
)

// Read reads a task. language is the language of the plan, "" means the language of the text. The
// caller must have limited the sizes of text and requirements.
func Read(text string, requirements []string, language words.Language) *Task {
	text = Clean(text)
	items := make([]string, len(requirements))
	for i, r := range requirements {
		items[i] = Clean(r)
	}
	whole := text + "\n" + strings.Join(items, "\n")
	t := &Task{Language: language, Known: true}
	if language == "" {
		t.Language, t.Known = words.Detect(whole)
	}
	reading := words.Reading(whole, t.Language)
	t.Traditional = t.Language == words.Chinese && words.IsTraditional(whole)
	x := words.For(reading)
	for i, c := range split(text, x, reading, maxTaskDemands) {
		t.Demands = append(t.Demands, newDemand(fmt.Sprintf("T%d", i+1), c, x, reading))
	}
	for i, r := range items {
		left := maxDemands - len(t.Demands) - (len(items) - i - 1)
		clauses := split(r, x, reading, max(1, left))
		for j, c := range clauses {
			id := fmt.Sprintf("R%d", i+1)
			if len(clauses) > 1 {
				id = fmt.Sprintf("R%d.%d", i+1, j+1)
			}
			t.Demands = append(t.Demands, newDemand(id, c, x, reading))
		}
	}
	t.findGoal()
	t.judge()
	for i, d := range t.Demands {
		d.Type = d.typeOf(t.Kind, i == t.Goal)
		// Text before the order to fix something describes the defect.
		if (t.Kind == Fix || t.Kind == Incident) && i < t.Goal && (d.Type == Context || d.Type == Prohibition && !d.Own && (d.has("able", "can") || !d.has("mark", "must"))) {
			d.Type = Symptom
		}
	}
	return t
}

// serving lists acts that only support the goal: the goal of "back up, then upgrade" is the upgrade.
var serving = map[string]bool{"backup": true, "test": true, "review": true, "inform": true, "approve": true, "measure": true, "collect": true, "present": true, "decide": true, "automate": true}

// findGoal chooses the first clause of the task with an act that does not only support another one. The
// goal of "find out why, then fix it" is the fix.
func (t *Task) findGoal() {
	served, own, any := -1, -1, -1
	for i, d := range t.Demands {
		if d.ID[0] != 'T' && any >= 0 {
			break
		}
		switch {
		case !d.Own || d.startsNegative():
			if d.Act != "" && any < 0 && !d.negative() {
				any = i
			}
			continue
		case own < 0:
			own = i
		}
		if any < 0 {
			any = i
		}
		if d.ID[0] == 'T' && d.Act == "fix" && own >= 0 && t.Demands[own].Act == "investigate" {
			t.Goal = i
			return
		}
		if d.ID[0] == 'T' && served < 0 && acts[d.Act] != "" && !serving[d.Act] {
			served = i
		}
	}
	switch {
	case served >= 0 && own >= 0 && serving[t.Demands[own].Act]:
		t.Goal = served
	case own >= 0:
		t.Goal = own
	default:
		t.Goal = max(any, 0)
	}
}

func (d *Demand) negative() bool { return d.has("mark", "not") }

func (d *Demand) has(class, name string) bool {
	for _, h := range d.hits {
		if h.Class == class && h.Name == name {
			return true
		}
	}
	return false
}

// typeOf decides the type of a demand, after the kind of work is known.
func (d *Demand) typeOf(k Kind, goal bool) Type {
	must := d.has("mark", "must")
	listed := d.ID[0] == 'R'
	switch {
	case goal:
		return Action
	case strings.HasSuffix(d.Text, "?") || strings.HasSuffix(d.Text, "？"):
		return Question
	case (k == Fix || k == Incident) && !listed && !d.Own && d.has("kind", string(k)) && !must:
		return Symptom
	case d.Due != "" && (d.bare() || d.Act == "" && !listed && !must):
		return Deadline
	case d.Own && !d.startsNegative():
		return Action
	case d.negative() && (must || listed || d.startsNegative()):
		return Prohibition
	case d.Act != "" && (must || listed):
		return Property
	case must, listed, d.limited(), d.Due != "", d.startsNegative():
		return Property
	case d.place.item:
		return Property
	}
	return Context
}

// bare reports whether a demand contains little except a date.
func (d *Demand) bare() bool {
	return (d.Act == "" || d.Act == "do") && len(d.Topics) == 0 && len(d.Terms) <= 3 || d.About("deadline")
}

// limited reports whether a quantity of the demand is a limit, rather than a mere amount.
func (d *Demand) limited() bool {
	for _, l := range d.Limits {
		if l.Op == "≤" || l.Op == "≥" {
			return true
		}
	}
	return false
}

// Rhythm reports whether a demand is a repeated time: "30 minutes a day".
func (d *Demand) Rhythm() bool {
	return d.Act == "" && d.has("mark", "per") && slices.ContainsFunc(d.Limits, func(l Limit) bool { return l.Kind == "time" })
}

// Bounded reports whether a demand is little more than a limit.
func (d *Demand) Bounded() bool { return d.limited() && d.Act == "" }

// startsNegative reports whether a negation stands among the first words.
func (d *Demand) startsNegative() bool {
	for _, h := range d.hits {
		if h.Class == "mark" && h.Name == "not" && h.From <= 1 {
			return true
		}
	}
	return false
}
