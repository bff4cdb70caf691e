package plan

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

//go:embed data/*.tsv
var files embed.FS

// frame is the wording of a step; see data/README.txt.
type frame struct{ description, check string }

var frames = sync.OnceValue(func() map[words.Language]map[string]frame {
	all := map[words.Language]map[string]frame{}
	for _, l := range words.Languages {
		data, err := files.ReadFile("data/" + string(l) + ".tsv")
		if err != nil {
			panic(err) // embedded: cannot be missing in a built program
		}
		all[l] = map[string]frame{}
		for line := range strings.Lines(string(data)) {
			fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
			if len(fields) != 3 {
				panic(fmt.Sprintf("wording of %s: %q has %d fields, want 3", l, line, len(fields))) // as above
			}
			all[l][fields[0]] = frame{fields[1], fields[2]}
		}
	}
	return all
})

// Actions are the actions of our own plans, sorted.
func Actions() []string {
	names := slices.Sorted(maps.Keys(frames()[words.English]))
	return slices.DeleteFunc(names, func(n string) bool { return n[0] == '_' || strings.Contains(n, ".") })
}

// Largest number of runes quoted from a demand: as a step in its own words, in a frame,
// and as one of several in a frame.
const (
	maxOwn    = 300
	maxShown  = 160
	maxQuoted = 100
)

var quotes = map[words.Language][2]string{
	words.English: {"“", "”"}, words.Polish: {"„", "”"}, words.Russian: {"«", "»"}, words.Chinese: {"“", "”"},
}

// writer writes the texts of a plan.
type writer struct {
	b      *builder
	frames map[string]frame
	quotes [2]string
}

func newWriter(b *builder) *writer {
	w := &writer{b: b, frames: frames()[b.task.Language], quotes: quotes[b.task.Language]}
	if b.task.Traditional {
		w.quotes = [2]string{"「", "」"}
	}
	return w
}

// our converts our own text to the task's Chinese characters.
func (w *writer) our(text string) string {
	if w.b.task.Traditional {
		return traditionalQuotes.Replace(words.Traditional(text))
	}
	return text
}

var traditionalQuotes = strings.NewReplacer("“", "「", "”", "」")

// step returns description and check.
func (w *writer) step(s *draft) (description, check string) {
	d := w.b.task.Demands[s.covers[0]]
	f, ok := w.frames[s.action+"."+string(w.b.task.Kind)]
	if !ok {
		f = w.frames[s.action]
	}
	fill := w.fill(s)
	description = upper(fill.Replace(w.our(f.description)))
	if s.own {
		description = upper(clip(d.Shown, maxOwn))
		if about := w.pronoun(d); about != "" {
			description += ": " + about
		}
	}
	if symptoms := w.symptoms(); len(symptoms) > 0 && w.pronoun(d) == "" && (s.action == "reproduceDefect" || s.action == "assessImpact") {
		description += " – " + w.join(symptoms, true)
	}
	check = upper(fill.Replace(w.our(f.check)))
	if s.closes {
		check += w.conditions(d)
	}
	return description, check
}

// conditions returns the demand's own conditions for being met.
func (w *writer) conditions(d *task.Demand) string {
	var out strings.Builder
	add := func(name, x string) {
		if w.b.task.Language != words.Chinese {
			out.WriteByte(' ')
		}
		out.WriteString(strings.ReplaceAll(w.our(w.frames[name].description), "{x}", x))
	}
	if len(d.Limits) > 0 {
		var all []string
		for _, l := range d.Limits {
			all = append(all, l.String())
		}
		add("_limit", strings.Join(all, "; "))
	}
	if d.Condition != "" {
		add("_condition", w.quote(clip(d.Condition, maxQuoted)))
	}
	if d.Due != "" {
		add("_due", d.Due)
	}
	return out.String()
}

// fill returns the values for the slots of a step's frames.
func (w *writer) fill(s *draft) *strings.Replacer {
	t := w.b.task
	about := s.covers[:1]
	if w.b.shared[s.action] == s || s.action == "reviewContext" {
		about = s.covers
	}
	d := t.Demands[s.covers[0]]
	thing, whole := d.Thing()
	thing = clip(thing, maxShown)
	if whole {
		thing = w.quote(thing)
	}
	shown := w.join(about, false)
	quoted := w.join(about, true)
	if about := w.pronoun(d); about != "" {
		thing, shown, quoted = about, about, about
	}
	var ids []string
	for _, j := range s.covers {
		ids = append(ids, t.Demands[j].ID)
	}
	goal := w.quote(clip(t.Demands[t.Goal].Shown, maxQuoted))
	from, to := goal, w.our(w.frames["_target"].description)
	if g := t.Demands[t.Goal]; g.To != "" {
		to = g.To
		if g.From != "" {
			from = g.From
		}
	}
	return strings.NewReplacer("{x}", shown, "{q}", quoted, "{o}", thing, "{r}", idList(ids), "{from}", from, "{to}", to)
}

// join lists the texts of demands, and stops when it becomes too long.
func (w *writer) join(demands []int, quoted bool) string {
	var out []string
	size := 0
	for i, j := range demands {
		limit := maxShown
		if len(demands) > 1 {
			limit = maxQuoted
		}
		text := clip(w.b.task.Demands[j].Shown, limit)
		size += utf8.RuneCountInString(text)
		if i > 0 && size > 2*maxShown {
			out = append(out, "…")
			break
		}
		if quoted {
			text = w.quote(text)
		}
		out = append(out, text)
	}
	if w.b.task.Language == words.Chinese {
		return strings.Join(out, "；")
	}
	return strings.Join(out, "; ")
}

// symptoms returns the demands that describe a defect.
func (w *writer) symptoms() []int {
	var out []int
	for i, d := range w.b.task.Demands {
		if w.b.asked(d) {
			out = append(out, i)
		}
	}
	return out
}

// shownIDs is how many ids a check names.
const shownIDs = 12

func idList(ids []string) string {
	if len(ids) > shownIDs {
		return strings.Join(ids[:shownIDs-1], ", ") + " … " + ids[len(ids)-1]
	}
	return strings.Join(ids, ", ")
}

func (w *writer) quote(s string) string { return w.quotes[0] + s + w.quotes[1] }

// pronoun returns the subject of a goal that has no object of its own, "find out why and fix it": the
// defect or the question; otherwise "".
func (w *writer) pronoun(d *task.Demand) string {
	if d.ID[0] != 'T' || !d.Own || len(d.Object(object)) > 0 {
		return ""
	}
	symptoms := w.symptoms()
	if len(symptoms) == 0 {
		return ""
	}
	return w.join(symptoms[:1], true)
}

func upper(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	if n == 0 || first == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(first)) + s[n:]
}

// clip cuts text to at most n runes, at a space if there is one.
func clip(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	end := 0
	for i := range text {
		if n == 1 {
			end = i
			break
		}
		n--
	}
	if i := strings.LastIndexByte(text[:end], ' '); i > end*2/3 {
		end = i
	}
	return text[:end] + "…"
}
