package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const metricsPage = "docs/reference/metrics.md"

var (
	metricRow = regexp.MustCompile("(?m)^\\| `(busbar_\\w+)` \\| (\\w+) \\| (.*?) \\| (.*?) \\| (.*) \\|$")
	// A figure in the code: asked for when it is read, kept, or described.
	askedMetric     = regexp.MustCompile(`(Gauge|Counter|gauge|counter)\("(busbar_\w+)", "([^"]*)"`)
	keptMetric      = regexp.MustCompile(`(?s)(Counter|Gauge|Histogram)Opts\{\s*Name:\s+"(busbar_\w+)",\s+Help:\s+"([^"]*)".*?\[\]string\{([^}]*)\}`)
	describedMetric = regexp.MustCompile(`(NewDesc)\("(busbar_\w+)", "([^"]*)", \[\]string\{([^}]*)\}`)
	metricName      = regexp.MustCompile(`"(busbar_\w*[a-z])"`)
)

// The page of metrics has each figure of every program, with its kind, labels, unit and
// the words of the code.
func TestMetrics(t *testing.T) {
	top := root(t)
	page, err := os.ReadFile(filepath.Join(top, metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = strings.Join(m[2:], " | ")
	}
	var found []string
	for _, s := range shipped(sources(t)) {
		if strings.HasPrefix(s.path, "test/") || strings.HasSuffix(s.path, testSuffix) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(top, s.path))
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		var here []string
		for _, form := range []*regexp.Regexp{askedMetric, keptMetric, describedMetric} {
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				kind, name, labels := strings.ToLower(m[1]), m[2], "–"
				switch {
				case len(m) == 5:
					labels = strings.ReplaceAll(m[4], `"`, "`")
				case kind == m[1]: // those of an instance, which have its service
					labels = "`service`"
				}
				if kind == "newdesc" {
					kind = "gauge"
				}
				unit := "–"
				for _, one := range []string{"seconds", "bytes"} {
					if strings.Contains(name, "_"+one) {
						unit = one
					}
				}
				want := strings.Join([]string{kind, labels, unit, m[3]}, " | ")
				if rows[name] != want {
					t.Errorf("%s has %s; %s says\n%q, want\n%q", s.path, name, metricsPage, rows[name], want)
				}
				here = append(here, name)
			}
		}
		for _, m := range metricName.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(here, m[1]) {
				t.Errorf("%s: this test does not see what %s is", s.path, m[1])
			}
		}
		found = append(found, here...)
	}
	for name := range rows {
		if !slices.Contains(found, name) {
			t.Errorf("%s has %s, which no program shows", metricsPage, name)
		}
	}
	if len(found) < 30 {
		t.Errorf("only %d figures are found", len(found))
	}
}
