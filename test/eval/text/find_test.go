package text

import (
	"slices"
	"strings"
	"testing"

	service "github.com/busbar-mcp/busbar/services/text"
)

var types = []string{"technologies", "concepts", "processes"}

func entities(t *testing.T, d *service.Document) map[string][]string {
	t.Helper()
	found, err := d.Entities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"technologies": found.Technologies, "concepts": found.Concepts, "processes": found.Processes}
}

func TestEvalEntities(t *testing.T) {
	found := group{}
	by := group{}
	for _, a := range articles(t) {
		got := entities(t, read(t, a.text()))
		for _, kind := range types {
			c := overlap(got[kind], a.entities[kind])
			found.add(kind, a.split, c)
			by.add(a.language, a.split, c)
			if verbose {
				for _, e := range got[kind] {
					if !has(a.entities[kind], e) {
						missed(a.split, "%s: %s is none of the %s", a.name, e, kind)
					}
				}
				for _, e := range a.entities[kind] {
					if !has(got[kind], e) {
						missed(a.split, "%s: %s was not found among the %s", a.name, e, kind)
					}
				}
			}
		}
	}
	rows := [][]string{{"entities", "P tune", "R tune", "P held", "R held", "F1 all"}}
	row := func(name string, g group) {
		a, b := g[[2]string{name, tune}], g[[2]string{name, held}]
		rows = append(rows, []string{name, figure(a.precision()), figure(a.recall()), figure(b.precision()), figure(b.recall()), figure(g.both(name).f1())})
	}
	least := map[string]float64{"technologies": 0.90, "concepts": 0.70, "processes": 0.85}
	for _, kind := range types {
		row(kind, found)
		floor(t, "F1 of "+kind, found.both(kind).f1(), least[kind])
	}
	for _, l := range languages {
		row(l, by)
		floor(t, "F1 of entities in "+l, by.both(l).f1(), 0.75)
	}
	table("Entities, whole and as written, by type and by language", rows)
}

// TestEvalMentions asks for the base forms of names in single sentences.
func TestEvalMentions(t *testing.T) {
	var all tally
	for line := range strings.SplitSeq(strings.TrimSpace(lines(t, "testdata/mentions.tsv")), "\n") {
		split, rest, _ := strings.Cut(line, "\t")
		text, labels, _ := strings.Cut(rest, "\t")
		var want []string
		for label := range strings.SplitSeq(labels, ";") {
			if label = strings.TrimSpace(label); label != "" {
				want = append(want, label)
			}
		}
		got := entities(t, read(t, text))["technologies"]
		c := tally{found: len(got), wanted: len(want)}
		for _, g := range got {
			if slices.Contains(want, g) {
				c.right++
			}
		}
		all.add(c)
		if c.right != c.found || c.right != c.wanted {
			missed(split, "%s: %q for %q", text, got, want)
		}
	}
	table("Technologies named by single sentences, in base form", [][]string{{"", "P", "R", "F1"}, {"held", figure(all.precision()), figure(all.recall()), figure(all.f1())}})
	floor(t, "F1 of technologies in sentences", all.f1(), 0.90)
}

func has(all []string, name string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, name) || lemma(s) == lemma(name) })
}

// lemma is crude: labels are base forms, finds are inflected.
func lemma(name string) string {
	var all []string
	for _, word := range strings.Fields(strings.ToLower(name)) {
		lang := "pl"
		if strings.ContainsFunc(word, func(r rune) bool { return r >= 'а' && r <= 'я' }) {
			lang = "ru"
		}
		all = append(all, service.Stem(strings.TrimSuffix(word, "s"), lang))
	}
	return strings.Join(all, " ")
}

func overlap(got, want []string) tally {
	c := tally{found: len(got), wanted: len(want)}
	for _, w := range want {
		if has(got, w) {
			c.right++
		}
	}
	return c
}

// asked is how many keywords are looked at.
const asked = 5

func TestEvalKeywords(t *testing.T) {
	by, frequent := group{}, group{}
	for _, a := range articles(t) {
		d := read(t, a.text())
		found, err := d.Keywords(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, k := range found {
			words = append(words, k.Word)
		}
		c := a.named(words)
		by.add(a.language, a.split, c)
		frequent.add(a.language, a.split, a.named(mostFrequent(t, d)))
		if c.right < min(asked, len(a.keywords)) {
			missed(a.split, "%s: %v for %v", a.name, words, a.keywords)
		}
	}
	rows := [][]string{{"keywords", "P@5 tune", "P@5 held", "R@5 tune", "R@5 held", "long words"}}
	for _, l := range languages {
		a, b := by[[2]string{l, tune}], by[[2]string{l, held}]
		rows = append(rows, []string{l, figure(a.precision()), figure(b.precision()), figure(a.recall()), figure(b.recall()), figure(frequent.both(l).precision())})
		floor(t, "recall of keywords in "+l, by.both(l).recall(), 0.5)
	}
	table("Keywords among the first 5 (the last column: P@5 of the most frequent words of five letters or more)", rows)
}

// named counts words that begin like one of the labels; one label counts once.
func (a *article) named(words []string) tally {
	c := tally{found: len(words), wanted: len(a.keywords)}
	for _, beginnings := range a.keywords {
		if slices.ContainsFunc(words, func(w string) bool {
			return slices.ContainsFunc(beginnings, func(b string) bool {
				if a.language == "zh" {
					return w == b
				}
				return strings.HasPrefix(strings.ToLower(w), b)
			})
		}) {
			c.right++
		}
	}
	return c
}

// mostFrequent is the simple way to find keywords.
func mostFrequent(t *testing.T, d *service.Document) []string {
	t.Helper()
	words, err := d.Words(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	var order []string
	for _, w := range words {
		w = strings.ToLower(w)
		if least := 5; len(w) < least {
			continue
		}
		if counts[w] == 0 {
			order = append(order, w)
		}
		counts[w]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return counts[b] - counts[a] })
	return order[:min(asked, len(order))]
}
