package doctor_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// heard is what doctor said in all tests.
var heard struct {
	sync.Mutex
	lines []string
}

// said is what doctor says in the table for those who have a symptom; the dots stand for
// anything.
var said = regexp.MustCompile("`(\\w+ (?:wrong|warning) [^`]+)`")

// unsaid are the words in docs/guides/operate.md that doctor has not said in these tests.
func unsaid() (words []string) {
	page, err := os.ReadFile("../../../../docs/guides/operate.md")
	if err != nil {
		return []string{err.Error()}
	}
	_, table, _ := strings.Cut(string(page), "\n## What to do when\n")
	rows := said.FindAllStringSubmatch(table, -1)
	for _, row := range rows {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(row[1]), "…", ".*")
		if !slices.ContainsFunc(heard.lines, regexp.MustCompile("^"+pattern).MatchString) {
			words = append(words, row[1])
		}
	}
	if len(rows) < 9 {
		words = append(words, fmt.Sprintf("something in %d rows", len(rows)))
	}
	return words
}
