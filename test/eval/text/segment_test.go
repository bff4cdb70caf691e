package text

import (
	"slices"
	"strings"
	"testing"
)

// group gathers tallies by language and part.
type group map[[2]string]tally

func (g group) add(language, split string, c tally) {
	sum := g[[2]string{language, split}]
	sum.add(c)
	g[[2]string{language, split}] = sum
}

func (g group) both(language string) tally {
	sum := g[[2]string{language, tune}]
	sum.add(g[[2]string{language, held}])
	return sum
}

func TestEvalSentences(t *testing.T) {
	prose, hard := group{}, group{}
	for _, a := range articles(t) {
		got := read(t, a.text()).Sentences()
		prose.add(a.language, a.split, compare(got, a.sentences()))
		for _, s := range got {
			if !slices.Contains(a.sentences(), s) {
				missed(a.split, "%s", s)
			}
		}
	}
	for block := range strings.SplitSeq(strings.TrimSpace(lines(t, "testdata/sentences.txt")), "\n\n") {
		all := strings.Split(strings.TrimSpace(block), "\n")
		split, language, _ := strings.Cut(all[0], " ")
		joint := " "
		if language == "zh" {
			joint = ""
		}
		got := read(t, strings.Join(all[1:], joint)).Sentences()
		hard.add(language, split, compare(got, all[1:]))
		for _, s := range got {
			if !strings.Contains(block, "\n"+s+"\n") && !strings.HasSuffix(block, "\n"+s) {
				missed(split, "%s", s)
			}
		}
	}
	rows := [][]string{{"sentences", "texts tune", "texts held", "hard tune", "hard held"}}
	for _, l := range languages {
		rows = append(rows, []string{l, figure(prose[[2]string{l, tune}].f1()), figure(prose[[2]string{l, held}].f1()),
			figure(hard[[2]string{l, tune}].f1()), figure(hard[[2]string{l, held}].f1())})
		floor(t, "F1 of sentences in "+l, prose.both(l).f1(), 0.97)
		floor(t, "F1 of hard sentences in "+l, hard.both(l).f1(), 0.75)
	}
	for _, l := range []string{"de", "es"} {
		rows = append(rows, []string{l, "", "", figure(hard[[2]string{l, tune}].f1()), ""})
		floor(t, "F1 of hard sentences in "+l, hard.both(l).f1(), 0.8)
	}
	table("Sentences, F1", rows)
}

func TestEvalChineseWords(t *testing.T) {
	split := tune
	found, characters := group{}, group{}
	for line := range strings.SplitSeq(strings.TrimSpace(lines(t, "testdata/segmentation.txt")), "\n") {
		if line == held {
			split = held
			continue
		}
		var want []string
		for w := range strings.FieldsSeq(line) {
			if !strings.ContainsAny(w, "，。？！；：、") {
				want = append(want, w)
			}
		}
		got, err := read(t, strings.ReplaceAll(line, " ", "")).Words(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := compare(got, want)
		found.add("zh", split, c)
		characters.add("zh", split, compare(strings.Split(strings.Join(want, ""), ""), want))
		if c.right != c.wanted {
			missed(split, "%s", strings.Join(got, " "))
		}
	}
	row := func(name string, g group) []string {
		a, b := g[[2]string{"zh", tune}], g[[2]string{"zh", held}]
		return []string{name, figure(b.precision()), figure(b.recall()), figure(a.f1()), figure(b.f1())}
	}
	table("Chinese words", [][]string{{"", "P held", "R held", "F1 tune", "F1 held"}, row("text service", found), row("single characters", characters)})
	floor(t, "F1 of Chinese words", found.both("zh").f1(), 0.92)
}
