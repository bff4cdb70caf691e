// Package text evaluates the text service on labelled texts and prints how it
// did: `make eval`. The figures have floors, so that `make test` notices when
// quality falls.
//
// The texts were written for this purpose; testdata/README.md says how they
// are labelled, and which of them were held out while methods were tuned.
package text

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	service "github.com/busbar-mcp/busbar/services/text"
)

//go:embed testdata
var files embed.FS

var languages = []string{"en", "pl", "ru", "zh"}

// held and tune are the two parts of every labelled set.
const (
	tune = "tune"
	held = "held"
)

// article is one labelled text.
type article struct {
	name, language, kind, split string
	paragraphs                  [][]string // of sentences
	reference                   []string   // sentences of the reference summary
	keywords                    [][]string // each by the beginnings it is known by
	entities                    map[string][]string
}

// joint is the text between two sentences.
func (a *article) joint() string {
	if a.language == "zh" {
		return ""
	}
	return " "
}

func (a *article) sentences() []string { return slices.Concat(a.paragraphs...) }

func (a *article) text() string {
	var all []string
	for _, p := range a.paragraphs {
		all = append(all, strings.Join(p, a.joint()))
	}
	return strings.Join(all, "\n\n")
}

func (a *article) summary() string { return strings.Join(a.reference, a.joint()) }

// articles reads all texts, in the order of their names.
func articles(t *testing.T) []*article {
	t.Helper()
	paths, err := fs.Glob(files, "testdata/texts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no texts", err)
	}
	var all []*article
	for _, path := range paths {
		all = append(all, readArticle(t, path))
	}
	return all
}

func readArticle(t *testing.T, path string) *article {
	t.Helper()
	head, body, ok := strings.Cut(lines(t, path), "\n\n")
	if !ok {
		t.Fatalf("%s has no body", path)
	}
	a := &article{name: strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".txt"), entities: map[string][]string{}}
	for line := range strings.Lines(head) {
		label, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch label {
		case "language":
			a.language = value
		case "kind":
			a.kind = value
		case "split":
			a.split = value
		case "keywords":
			for word := range strings.FieldsSeq(value) {
				a.keywords = append(a.keywords, strings.Split(word, "/"))
			}
		case "technologies", "concepts", "processes":
			a.entities[label] = strings.Split(value, "; ")
		default:
			t.Fatalf("%s: unknown label %q", path, label)
		}
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		var sentences []string
		for line := range strings.SplitSeq(paragraph, "\n") {
			sentence, chosen := strings.CutPrefix(line, "* ")
			if chosen {
				a.reference = append(a.reference, sentence)
			}
			sentences = append(sentences, sentence)
		}
		a.paragraphs = append(a.paragraphs, sentences)
	}
	if !slices.Contains(languages, a.language) || a.split != tune && a.split != held || len(a.reference) == 0 || len(a.keywords) == 0 {
		t.Fatalf("%s is not fully labelled", path)
	}
	return a
}

// lines is a file without its comments.
func lines(t *testing.T, path string) string {
	t.Helper()
	data, err := files.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func read(t *testing.T, text string) *service.Document {
	t.Helper()
	d, err := service.Read(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// table prints rows under a heading, the first row as column names.
func table(heading string, rows [][]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", heading)
	for _, row := range rows {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(&b, "  %-24s", cell)
			} else {
				fmt.Fprintf(&b, "%12s", cell)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Print(b.String())
}

// floor fails the test when a figure is below what it has been.
func floor(t *testing.T, what string, got, least float64) {
	t.Helper()
	if got < least {
		t.Errorf("%s is %.3f, below its floor of %.3f", what, got, least)
	}
}

func figure(v float64) string { return fmt.Sprintf("%.3f", v) }
