package text

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	service "github.com/busbar-mcp/busbar/services/text"
)

// verbose prints what went wrong, for those who tune.
var verbose = os.Getenv("BUSBAR_EVAL_VERBOSE") != ""

func missed(split, format string, args ...any) {
	if verbose && split == tune {
		fmt.Printf("    missed: "+format+"\n", args...)
	}
}

func TestEvalLanguages(t *testing.T) {
	// Right by expected language and split; "other" are the languages that
	// the service does not know well.
	right, all := map[[2]string]int{}, map[[2]string]int{}
	grouped := append(slices.Clone(languages), "de", "es")
	confused := 0 // others taken for one of the four
	for line := range strings.SplitSeq(strings.TrimSpace(lines(t, "testdata/languages.tsv")), "\n") {
		fields := strings.Split(line, "\t")
		want, split, got := fields[0], fields[1], read(t, fields[2]).Language()
		group := want
		if !slices.Contains(grouped, want) {
			group = "other"
			if slices.Contains(languages, got) {
				confused++
			}
		}
		all[[2]string{group, split}]++
		if got == want {
			right[[2]string{group, split}]++
		} else {
			missed(split, "%s taken for %s: %s", want, got, fields[2])
		}
	}
	rows := [][]string{{"language", "tune", "held", "snippets"}}
	for _, group := range append(slices.Clone(grouped), "other") {
		a, b := [2]string{group, tune}, [2]string{group, held}
		rows = append(rows, []string{group, figure(share(right[a], all[a])), figure(share(right[b], all[b])), fmt.Sprint(all[a] + all[b])})
		floor(t, "accuracy for "+group, share(right[a]+right[b], all[a]+all[b]), 0.90)
	}
	if confused > 0 {
		t.Errorf("%d snippets of other languages are taken for one of the four", confused)
	}
	table(fmt.Sprintf("Language of short and mixed snippets, accuracy (%d other ones taken for en, pl, ru or zh)", confused), rows)

	wrong := 0
	for _, a := range articles(t) {
		if got := read(t, a.text()).Language(); got != a.language {
			wrong++
			t.Errorf("%s is taken for %s", a.name, got)
		}
	}
	fmt.Printf("  whole texts: %d of %d wrong\n", wrong, len(articles(t)))
}

func TestEvalStems(t *testing.T) {
	rows := [][]string{{"stems", "precision", "recall", "F1 tune", "F1 held"}}
	for _, lang := range []string{"en", "pl", "ru"} {
		by := map[string]tally{}
		for _, split := range []string{tune, held} {
			by[split] = stems(t, lang, split)
		}
		all := by[tune]
		all.add(by[held])
		rows = append(rows, []string{lang, figure(all.precision()), figure(all.recall()), figure(by[tune].f1()), figure(by[held].f1())})
		floor(t, "F1 of stems in "+lang, all.f1(), 0.92)
		floor(t, "precision of stems in "+lang, all.precision(), 0.98)
	}
	table("Stems: pairs of forms that share one, against pairs of forms of one word", rows)
}

// stems compares all pairs of forms of one part: pairs with one stem against pairs of one word.
func stems(t *testing.T, lang, split string) tally {
	t.Helper()
	type form struct {
		word int
		stem string
	}
	var forms []form
	for i, line := range strings.Split(strings.TrimSpace(lines(t, "testdata/stems.txt")), "\n") {
		fields := strings.Fields(line)
		if fields[0] != lang || fields[1] != split {
			continue
		}
		found := map[string]bool{}
		for _, f := range fields[2:] {
			stem := service.Stem(f, lang)
			found[stem] = true
			forms = append(forms, form{i, stem})
		}
		if len(found) > 1 {
			missed(split, "%s has stems %v", fields[2], found)
		}
	}
	var c tally
	for i, a := range forms {
		for _, b := range forms[i+1:] {
			if a.word == b.word {
				c.wanted++
			}
			if a.stem == b.stem {
				c.found++
				if a.word == b.word {
					c.right++
				} else {
					missed(split, "one stem for two words: %s", a.stem)
				}
			}
		}
	}
	return c
}
