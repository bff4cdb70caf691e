package task

import "maps"

// Kind is a kind of work.
type Kind string

// The known kinds of work. General is used without evidence for another.
const (
	Build       Kind = "build"
	Fix         Kind = "fix"
	Migrate     Kind = "migrate"
	Investigate Kind = "investigate"
	Write       Kind = "write"
	Analysis    Kind = "analysis"
	Incident    Kind = "incident"
	Event       Kind = "event"
	Learn       Kind = "learn"
	Buy         Kind = "buy"
	General     Kind = "general"
)

// kinds is in the order that decides between equals: the more specific first.
var kinds = []Kind{Incident, Fix, Migrate, Event, Buy, Analysis, Learn, Investigate, Write, Build}

// acts maps an act to the kind of work that it is evidence for.
var acts = map[string]Kind{
	"build": Build, "change": Build, "design": Build, "deploy": Build, "monitor": Build, "remove": Build,
	"fix": Fix, "migrate": Migrate, "investigate": Investigate, "compare": Investigate, "write": Write,
	"analyse": Analysis, "restore": Incident, "arrange": Event, "book": Event, "inform": Event,
	"buy": Buy, "learn": Learn, "practise": Learn,
}

// Weights of evidence. The goal's act counts most, the rest of the task and its
// requirements less.
const (
	weightGoalAct  = 4
	weightNextAct  = 3 // act of the next clause, if the goal's act is not evidence
	weightGoalNoun = 2
	weightAct      = 1
	weightNoun     = 1
	most           = 4 // largest total of other clauses for one kind
	least          = 2 // least total for a kind to be chosen
)

// judge decides the kind of work by evidence.
func (t *Task) judge() {
	scores, others := map[Kind]int{}, map[Kind]int{}
	var evidence = map[Kind][]string{}
	named := map[Kind]bool{} // by the task itself
	note := func(d *Demand, k Kind, weight int, word string) {
		scores[k] += weight
		named[k] = named[k] || d.ID[0] == 'T'
		for _, e := range evidence[k] {
			if e == word {
				return
			}
		}
		if len(evidence[k]) < 6 {
			evidence[k] = append(evidence[k], word)
		}
	}
	next := !t.speaks(t.Goal)
	for i, d := range t.Demands {
		goalAct := i == t.Goal
		if next && !goalAct && d.ID[0] == 'T' && d.Own && t.speaks(i) {
			scores[acts[d.Act]] += weightNextAct
			next = false
		}
		for _, h := range d.hits {
			word := d.Text[d.tokens[h.From].Start:d.tokens[h.To-1].End]
			switch {
			case h.Class == "act" && acts[h.Name] != "" && goalAct:
				note(d, acts[h.Name], weightGoalAct, word)
				goalAct = false
			case h.Class == "act" && acts[h.Name] != "":
				if k := acts[h.Name]; others[k] < most {
					others[k]++
					note(d, k, weightAct, word)
				}
			case h.Class == "kind" && i == t.Goal:
				note(d, Kind(h.Name), weightGoalNoun, word)
			case h.Class == "kind":
				if k := Kind(h.Name); others[k] < most {
					others[k]++
					note(d, k, weightNoun, word)
				}
			}
		}
	}
	// Requirements alone describe how the work is done, not its kind.
	maps.DeleteFunc(scores, func(k Kind, _ int) bool { return !named[k] })
	if !t.software() {
		delete(scores, Build)
	}
	if !t.gathering() {
		delete(scores, Event)
	}
	t.Kind = General
	top := least - 1
	for _, k := range kinds {
		if scores[k] > top {
			t.Kind, top = k, scores[k]
		}
	}
	t.Evidence = evidence[t.Kind]
}

// speaks reports whether the act of a demand is evidence for a kind of work.
func (t *Task) speaks(i int) bool { return acts[t.Demands[i].Act] != "" }

// gathering reports whether people meet according to the text: many things are organised without a
// meeting.
func (t *Task) gathering() bool {
	for _, d := range t.Demands {
		if d.has("kind", string(Event)) {
			return true
		}
		for _, topic := range []string{"venue", "catering", "guests", "programme", "lodging"} {
			if d.About(topic) {
				return true
			}
		}
	}
	return false
}

// softwareTopics lists topics that only software has.
var softwareTopics = []string{"performance", "integration", "ui", "security", "tests", "monitoring", "compatibility"}

// software reports whether the result is software according to the text.
func (t *Task) software() bool {
	for _, d := range t.Demands {
		if d.has("kind", string(Build)) {
			return true
		}
		for _, topic := range softwareTopics {
			if d.About(topic) {
				return true
			}
		}
	}
	return false
}
