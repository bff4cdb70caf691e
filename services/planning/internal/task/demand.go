package task

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// newDemand reads one clause.
func newDemand(id string, c clause, x *words.Lexicon, l words.Language) *Demand {
	d := &Demand{ID: id, Text: c.text, place: c.place, tokens: words.Cut(c.text)}
	d.hits = x.Find(d.tokens)
	d.dropNegated()
	d.readAct(l)
	for _, h := range d.hits {
		if h.Class == "topic" && !d.About(h.Name) {
			d.Topics = append(d.Topics, h.Name)
		}
	}
	d.Due = due(d.Text, d.tokens, d.hits)
	for _, l := range limits(d.Text, d.tokens, d.hits) {
		if d.Due == "" || !strings.Contains(d.Due, l.Text) && !strings.Contains(l.Text, d.Due) {
			d.Limits = append(d.Limits, l)
		}
	}
	d.settleTopics()
	d.skip = skipped(d.hits, len(d.tokens))
	d.Terms = d.terms(0, len(d.tokens))
	d.readOrder()
	d.readCondition()
	d.readMove()
	return d
}

// settleTopics drops topics that follow from another one.
func (d *Demand) settleTopics() {
	for _, l := range d.Limits {
		// A limit in seconds concerns speed, whatever it limits.
		if l.Kind == "instant" && l.Op == "≤" {
			d.Topics = []string{"performance"}
			return
		}
	}
	for _, other := range []string{"privacy", "legal", "platform", "accessibility"} {
		if d.About(other) { // to comply with a law, or to run on a phone
			d.Topics = slices.DeleteFunc(d.Topics, func(t string) bool { return t == "compatibility" })
		}
	}
	d.Topics = d.Topics[:min(len(d.Topics), maxTopics)]
	if (d.Act == "write" || d.Act == "build") && d.About("tests") {
		d.Act = "automate"
		if strings.Contains(strings.ToLower(d.Text), "regress") || d.has("mark", "regression") {
			d.Act = "regress"
		}
	}
}

// readAct finds the first act. If it stands first, or directly after words of order or joining, the clause
// can be a step in its own words.
func (d *Demand) readAct(l words.Language) {
	next := d.behindSubordinate() // tokens before it carry no meaning
	begin := next
	d.Shown = d.Text
	for _, h := range d.hits {
		if h.From < begin {
			continue
		}
		opens := h.Class == "open" || h.Class == "mark" && (h.Name == "then" || h.Name == "first" || h.Name == "last" || h.Name == "and")
		if begin == 0 && opens && h.From <= next && h.To < len(d.tokens) {
			next = max(next, h.To)
			d.Shown = d.Text[d.tokens[next].Start:]
		}
		if h.Class == "cmp" && begin == 0 && h.From <= next {
			next = max(next, h.To) // "at least interview …", a Chinese construction
		}
		if h.Class == "act" && (h.To >= len(d.tokens) || d.tokens[h.To].Text != "的") {
			d.Act, d.Own, d.actEnd = h.Name, h.From <= next, h.To
			if second, ok := d.joined(h.To); ok { // "find and fix"
				d.Act, d.actEnd = second.Name, second.To
			}
			break
		}
	}
	// Chinese names the object first: "把队列迁移到 Kafka".
	if l == words.Chinese && d.Act != "" && !d.Own && next < len(d.tokens) && (d.tokens[next].Text == "把" || d.tokens[next].Text == "将") {
		d.Own, d.actEnd = true, 0
	}
	// An unknown infinitive still names an act.
	if !d.Own && next < len(d.tokens) && infinitive(d.tokens[next].Text, l) {
		d.Act, d.Own, d.actEnd = "", true, 0
	}
}

// joined returns the act at token i, directly after an "and".
func (d *Demand) joined(i int) (act words.Hit, ok bool) {
	for _, and := range d.hits {
		if and.Class != "mark" || and.Name != "and" || and.From != i {
			continue
		}
		for _, h := range d.hits {
			if h.Class == "act" && h.From == and.To && acts[h.Name] != "" {
				return h, true
			}
		}
	}
	return words.Hit{}, false
}

// behindSubordinate returns the token after the comma of a clause that begins with "after",
// "before" or "if"; in Chinese, after the word that closes it; 0 without such a clause.
func (d *Demand) behindSubordinate() int {
	for _, h := range d.hits {
		if h.Class == "mark" && (h.Name == "prebefore" || h.Name == "preafter") && h.From <= 2*reach {
			return h.To
		}
	}
	if len(d.hits) == 0 {
		return 0
	}
	for _, h := range d.hits {
		if h.From > 0 {
			return 0
		}
		if h.Class == "mark" && (h.Name == "before" || h.Name == "after" || h.Name == "if") {
			break
		}
	}
	for i := 1; i < len(d.tokens); i++ {
		if strings.ContainsAny(d.Text[d.tokens[i-1].End:d.tokens[i].Start], ",，") {
			return i
		}
	}
	return 0
}

func infinitive(word string, l words.Language) bool {
	switch l {
	case words.Russian:
		return endsIn(word, "ать", "ять", "ить", "еть", "уть", "ыть", "оть", "ться", "йти")
	case words.Polish:
		return endsIn(word, "ać", "ić", "yć", "eć")
	}
	return false
}

// nouns lists nouns that look like infinitives.
var nouns = map[string]bool{"сеть": true, "память": true, "печать": true, "нить": true, "sieć": true, "pamięć": true, "postać": true, "chęć": true}

func endsIn(word string, endings ...string) bool {
	return !nouns[word] && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(word, e) })
}

// dropNegated removes negations that are part of a comparison: "no more than" is not a prohibition.
func (d *Demand) dropNegated() {
	covered := map[int]bool{}
	for _, h := range d.hits {
		if h.Class == "cmp" {
			for i := h.From; i < h.To; i++ {
				covered[i] = true
			}
		}
	}
	d.hits = slices.DeleteFunc(d.hits, func(h words.Hit) bool { return h.Class == "mark" && h.Name == "not" && covered[h.From] })
}

// readOrder finds the words of order.
func (d *Demand) readOrder() {
	for _, h := range d.hits {
		if h.Class != "mark" {
			continue
		}
		switch h.Name {
		case "then":
			d.Then = d.Then || h.From <= 1
		case "first":
			d.First = d.First || h.From <= 1
		case "last":
			d.Last = d.Last || h.From <= 1
		case "before":
			if d.Due == "" && d.Before.Terms == nil {
				d.Before = d.beside(h)
			}
		case "after":
			if d.After.Terms == nil {
				d.After = d.beside(h)
			}
		case "prebefore": // Chinese: the word stands after its object
			if d.Due == "" && d.Before.Terms == nil {
				d.Before = d.ahead(h)
			}
		case "preafter":
			if d.After.Terms == nil {
				d.After = d.ahead(h)
			}
		}
	}
}

// reach is how many tokens a word of order refers to.
const reach = 6

// beside returns the terms after a hit, up to the next comma.
func (d *Demand) beside(h words.Hit) Reference {
	to := h.To
	for to < len(d.tokens) && to < h.To+reach && (to == h.To || !strings.ContainsAny(d.Text[d.tokens[to-1].End:d.tokens[to].Start], ",;，；:")) {
		to++
	}
	return d.reference(h.To, to)
}

func (d *Demand) reference(from, to int) Reference {
	r := Reference{d.terms(from, to), map[Kind]bool{}}
	for _, h := range d.hits {
		if h.Class == "kind" && h.From >= from && h.To <= to {
			r.Kinds[Kind(h.Name)] = true
		}
	}
	return r
}

// ahead returns the terms before a hit, back to the previous comma.
func (d *Demand) ahead(h words.Hit) Reference {
	from := h.From
	for from > 0 && from > h.From-2*reach && (from == h.From || !strings.ContainsAny(d.Text[d.tokens[from-1].End:d.tokens[from].Start], ",;，；:")) {
		from--
	}
	return d.reference(from, h.From)
}

func (d *Demand) readCondition() {
	for _, h := range d.hits {
		if h.Class != "mark" || h.Name != "if" {
			continue
		}
		start := d.tokens[h.From].Start
		rest := d.Text[start:]
		if i := strings.IndexAny(rest, ",，;；"); i > 0 {
			rest = rest[:i]
		}
		if utf8.RuneCountInString(rest) >= 8 {
			d.Condition = strings.TrimSpace(rest)
			return
		}
	}
}

// side is how many tokens one side of a move may have.
const side = 5

// readMove finds "from A to B".
func (d *Demand) readMove() {
	if d.Act != "migrate" && d.Act != "change" {
		return
	}
	from := -1
	for _, h := range d.hits {
		if h.Class != "mark" {
			continue
		}
		switch {
		case h.Name == "from" && from < 0 && h.To < len(d.tokens):
			from = h.To
		case h.Name == "to" && from >= 0 && h.From > from && h.To < len(d.tokens):
			d.From = d.phrase(from, h.From)
			d.To = d.phrase(h.To, len(d.tokens))
			return
		case h.Name == "to" && from < 0 && h.From >= d.actEnd && h.To < len(d.tokens) && d.To == "":
			d.To = d.phrase(h.To, len(d.tokens))
		}
	}
}

// phrase returns the text of tokens, up to the first comma and at most as long as a side.
func (d *Demand) phrase(from, to int) string {
	limit := side
	if d.tokens[from].Kind == words.Han {
		limit *= 3
	}
	to = min(to, from+limit)
	s := d.Text[d.tokens[from].Start:d.tokens[to-1].End]
	if i := strings.IndexAny(s, ",，;；（("); i > 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// stem is how many letters of a word are compared: enough for its meaning, but without the endings of
// Polish and Russian.
const stem = 5

// skipped marks the tokens without meaning of their own.
func skipped(hits []words.Hit, n int) []bool {
	skip := make([]bool, n)
	for _, h := range hits {
		switch h.Class {
		case "stop", "mark", "open", "cmp", "cmpafter", "num", "date":
			for i := h.From; i < h.To; i++ {
				skip[i] = true
			}
		}
	}
	return skip
}

// terms returns the terms of tokens from..to: stems of words, pairs of Han characters and decimal numbers,
// without function words.
func (d *Demand) terms(from, to int) map[string]bool {
	tokens, skip := d.tokens, d.skip
	out := map[string]bool{}
	for i := from; i < to; i++ {
		t := tokens[i]
		switch {
		case skip[i]:
		case t.Kind == words.Han:
			if i+1 < to && tokens[i+1].Kind == words.Han && !skip[i+1] {
				out[t.Text+tokens[i+1].Text] = true
			}
		case t.Kind == words.Number:
			if strings.Contains(t.Text, ".") {
				out[t.Text] = true
			}
		case len(t.Text) > 1:
			out[cutRunes(t.Text, stem)] = true
		}
	}
	return out
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// Object returns the first n terms after the act: its object.
func (d *Demand) Object(n int) map[string]bool {
	return d.terms(d.actEnd, min(len(d.tokens), d.actEnd+n))
}

// preposition reports whether token i is a function word other than an article: the text after it is not
// an object.
func (d *Demand) preposition(i int) bool {
	switch d.tokens[i].Text {
	case "a", "an", "the", "all", "any", "some", "each", "every", "our", "your", "my", "их", "наш", "все", "nasz", "nasze":
		return false
	}
	return slices.ContainsFunc(d.hits, func(h words.Hit) bool {
		return h.From == i && (h.Class == "stop" || h.Class == "mark") && d.tokens[i].Kind != words.Han
	})
}

// Thing returns the text after the act with which the demand begins. If it begins with none, whole is true
// and text is all of it.
func (d *Demand) Thing() (text string, whole bool) {
	if d.Own && d.actEnd > 0 && d.actEnd < len(d.tokens) && !d.preposition(d.actEnd) {
		return d.Text[d.tokens[d.actEnd].Start:], false
	}
	return d.Shown, true
}
