package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that docs/evidence/cases.md names is there.
func TestCasesHaveTheirTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/evidence/cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, room := range []string{"libs", "services", "test"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(source, -1) {
				there[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| case") {
			continue
		}
		rows++
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range named {
			if !there[m[1]] {
				t.Errorf("there is no %s", m[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d cases", rows)
	}
}

// The pages of evidence name no file of this repository that is gone.
func TestEvidenceNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs/evidence/*.md"))
	if err != nil || len(pages) < 4 {
		t.Fatal(pages, err)
	}
	path := regexp.MustCompile(`(?:^|[^\w./-])((?:libs|services|test|scripts|deploy|proto|examples|docs)/[\w./-]*\w)`)
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range path.FindAllStringSubmatch(string(page), -1) {
			if _, err := os.Stat(filepath.Join(root, file[1])); err != nil {
				t.Errorf("%s names %s, which is not there", filepath.Base(name), file[1])
			}
		}
	}
}
