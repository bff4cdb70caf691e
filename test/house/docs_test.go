package house

import (
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mentionedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9]*)`")
	declaredTest  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9]*)\(`)
	mentionedMake = regexp.MustCompile("`make ([a-z-]+)[^`]*`")
	makeTarget    = regexp.MustCompile(`(?m)^([a-z-]+):`)
	code          = regexp.MustCompile("(?ms)^```.*?^```$")
	link          = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	anchor        = regexp.MustCompile(`\]\(([^)#\s:]*)#([^)\s]+)\)`)
	heading       = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	linked        = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestDocuments(t *testing.T) {
	top := root(t)
	files := documents(t, top)

	t.Run("lists have each of their lines once", func(t *testing.T) {
		for _, path := range []string{"CHANGELOG.md", "docs/adr/README.md", "docs/adr/0003-dependencies.md", "docs/evidence/track-record.md"} {
			seen := map[string]bool{}
			for line := range strings.Lines(files[path]) {
				entry := strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "| [") || strings.HasPrefix(line, "| `")
				if entry && seen[line] {
					t.Errorf("%s has a line twice, as merges leave them: %.80s", path, line)
				}
				seen[line] = true
			}
			if len(seen) == 0 {
				t.Errorf("no %s", path)
			}
		}
	})
	t.Run("links lead somewhere", func(t *testing.T) {
		for path, text := range files {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
				if strings.Contains(m[1], ":") || filepath.Base(path) == "template.md" {
					continue
				}
				if _, err := os.Stat(filepath.Join(top, filepath.Dir(path), m[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", path, m[1])
				}
			}
		}
	})

	t.Run("anchors are headings", func(t *testing.T) {
		headings, followed := map[string]map[string]bool{}, 0
		for path, text := range files {
			headings[path] = map[string]bool{}
			for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
				said := strings.ToLower(strings.TrimSpace(linked.ReplaceAllString(m[1], "$1")))
				headings[path][strings.ReplaceAll(notInAnchors.ReplaceAllString(said, ""), " ", "-")] = true
			}
		}
		for path, text := range files {
			for _, m := range anchor.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
				target := path
				if m[1] != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(path), m[1]))
				}
				if there := headings[target]; there != nil && !there[m[2]] {
					t.Errorf("%s links to %s#%s, which has no such heading", path, m[1], m[2])
				}
				followed++
			}
		}
		if followed < 20 {
			t.Errorf("%d anchors", followed)
		}
	})

	t.Run("make has the targets they name", func(t *testing.T) {
		makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
		if err != nil {
			t.Fatal(err)
		}
		targets := map[string]bool{}
		for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
			targets[m[1]] = true
		}
		for path, text := range files {
			for _, m := range mentionedMake.FindAllStringSubmatch(text, -1) {
				if !targets[m[1]] {
					t.Errorf("%s names make %s, which the Makefile does not have", path, m[1])
				}
			}
		}
	})

	t.Run("tests they name exist", func(t *testing.T) {
		declared := map[string]bool{}
		for _, s := range sources(t) {
			if !strings.HasSuffix(s.path, "_test.go") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(top, s.path))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declaredTest.FindAllStringSubmatch(string(data), -1) {
				declared[m[1]] = true
			}
		}
		for path, text := range files {
			for _, m := range mentionedTest.FindAllStringSubmatch(text, -1) {
				if !declared[m[1]] {
					t.Errorf("%s names %s, which is no test; it was renamed or removed", path, m[1])
				}
			}
		}
	})
}

// documents are the Markdown files of the repository, by path.
func documents(t *testing.T, top string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(top, path, d) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A picture is drawn from the source beside it, as it is now. One of a terminal session parses,
// and shows the commands of its source in their order.
func TestPictures(t *testing.T) {
	top := root(t)
	diagrams, err := filepath.Glob(filepath.Join(top, "docs/pictures/*.d2"))
	sessions, failed := filepath.Glob(filepath.Join(top, "docs/pictures/*.session"))
	if err != nil || failed != nil || len(diagrams) == 0 || len(sessions) == 0 {
		t.Fatalf("no pictures: %v, %v", err, failed)
	}
	for _, source := range append(diagrams, sessions...) {
		name := filepath.Base(source)
		script := text(t, top, "docs/pictures/"+name)
		sum := fmt.Sprintf("<!-- drawn from %s, sha256 %x -->\n", name, sha256.Sum256([]byte(script)))
		for _, suffix := range []string{".svg", "-dark.svg"} {
			drawn := strings.TrimSuffix(name, filepath.Ext(name)) + suffix
			picture := text(t, top, "docs/pictures/"+drawn)
			if !strings.HasSuffix(picture, sum) {
				t.Errorf("docs/pictures/%s is not drawn from %s as it is; run make pictures", drawn, name)
			}
			if filepath.Ext(name) != ".session" {
				continue
			}
			var commands, want []string
			for line := range strings.Lines(script) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					want = append(want, strings.TrimSpace(command))
				}
			}
			texts := shown(t, drawn, picture)
			for i, said := range texts[:max(0, len(texts)-1)] {
				if said == "$" {
					commands = append(commands, texts[i+1])
				}
			}
			if !slices.Equal(commands, want) {
				t.Errorf("docs/pictures/%s shows the commands %q, %s has %q", drawn, commands, name, want)
			}
		}
	}
}

// shown returns the texts of a picture.
func shown(t *testing.T, name, picture string) (texts []string) {
	t.Helper()
	for decoder, inside := xml.NewDecoder(strings.NewReader(picture)), false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("docs/pictures/%s is not SVG: %v", name, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local == "text"
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside {
				texts = append(texts, string(token))
			}
		}
	}
}
