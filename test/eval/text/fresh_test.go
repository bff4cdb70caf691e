package text

import (
	"slices"
	"strings"
	"testing"
)

// TestEvalFresh asks for language, technologies and keywords of short texts that were
// written after the method: words that are also names of technologies, names in other
// cases, and Chinese that can be cut in two ways.
func TestEvalFresh(t *testing.T) {
	type scores struct{ language, technologies, keywords tally }
	sets := map[string]*scores{"a": {}, "b": {}}
	for line := range strings.SplitSeq(strings.TrimSpace(lines(t, "testdata/fresh.tsv")), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 5 {
			t.Fatalf("%q has %d cells", line, len(cells))
		}
		s, language, text := sets[cells[0]], cells[1], cells[2]
		d := read(t, text)
		s.language.wanted, s.language.found = s.language.wanted+1, s.language.found+1
		if d.Language() == language {
			s.language.right++
		}
		want := parted(cells[3])
		got := entities(t, d)["technologies"]
		s.technologies.add(overlap(got, want))
		words, err := d.Keywords(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		expected := parted(cells[4])
		right := 0
		for _, w := range words {
			if slices.ContainsFunc(expected, func(e string) bool {
				return slices.ContainsFunc(strings.Split(e, "/"), func(begin string) bool { return strings.HasPrefix(strings.ToLower(w.Word), begin) })
			}) {
				right++
			}
		}
		s.keywords.add(tally{found: len(words), right: right, wanted: min(5, len(expected))})
		if verbose && cells[0] == "a" && (d.Language() != language || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) || right < len(words)) {
			t.Logf("%s: %s\n  language %s, technologies %q, keywords %v", cells[0], text, d.Language(), got, words)
		}
	}
	rows := [][]string{{"set", "language", "technologies P", "R", "keywords P@5", "R@5"}}
	for _, name := range []string{"a", "b"} {
		s := sets[name]
		rows = append(rows, []string{name, figure(s.language.precision()), figure(s.technologies.precision()), figure(s.technologies.recall()), figure(s.keywords.precision()), figure(s.keywords.recall())})
	}
	table("Short texts written after the method (a: then mended, b: after that)", rows)
}

// parted are the parts of a cell.
func parted(cell string) []string {
	var all []string
	for part := range strings.SplitSeq(cell, ";") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
