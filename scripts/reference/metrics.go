package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// metric is one metric in the code. A name that gauge or counter takes belongs to an instance of a
// service, and has its service as label.
type metric struct{ path, kind, name, labels, help string }

var (
	askedMetric     = regexp.MustCompile(`(Gauge|Counter|gauge|counter)\("(busbar_\w+)", "([^"]*)"`)
	keptMetric      = regexp.MustCompile(`(?s)(Counter|Gauge|Histogram)Opts\{\s*Name:\s+"(busbar_\w+)",\s+Help:\s+"([^"]*)".*?\[\]string\{([^}]*)\}`)
	describedMetric = regexp.MustCompile(`(NewDesc)\("(busbar_\w+)", "([^"]*)", \[\]string\{([^}]*)\}`)
	metricName      = regexp.MustCompile(`"(busbar_\w*[a-z])"`)
)

type metrics struct {
	all   []metric
	shown map[string]bool
}

func findMetrics(c *code) (*metrics, error) {
	m := &metrics{shown: map[string]bool{}}
	for _, f := range c.files() {
		var here []string
		for _, form := range []*regexp.Regexp{askedMetric, keptMetric, describedMetric} {
			for _, s := range form.FindAllStringSubmatch(f.text, -1) {
				one := metric{f.path, strings.ToLower(s[1]), s[2], "–", s[3]}
				switch {
				case len(s) == 5:
					one.labels = strings.ReplaceAll(s[4], `"`, "`")
				case one.kind == s[1]:
					one.labels = "`service`"
				}
				if one.kind == "newdesc" {
					one.kind = "gauge"
				}
				m.all = append(m.all, one)
				here = append(here, one.name)
			}
		}
		for _, s := range metricName.FindAllStringSubmatch(f.text, -1) {
			if !slices.Contains(here, s[1]) {
				return nil, fmt.Errorf("%s: scripts/reference does not see what the metric %s is", f.path, s[1])
			}
		}
	}
	slices.SortFunc(m.all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return m, nil
}

// table shows the metrics of the files below a path.
func (m *metrics) table(path string) string {
	var rows [][]string
	notes := ""
	for _, one := range m.all {
		if !strings.HasPrefix(one.path, path) {
			continue
		}
		m.shown[one.name] = true
		what, more := split(strings.ReplaceAll(one.help, "a reason of docs/reference/errors.md", "a [reason](errors.md)"))
		rows = append(rows, []string{quoted(one.name), one.kind, one.labels, what})
		if more != "" {
			notes += wrap("- "+quoted(one.name)+": "+more, "  ")
		}
	}
	shown := table([]string{"name", "kind", "labels", "what"}, rows)
	if notes != "" && !strings.Contains(shown, "\n\n- ") { // otherwise the list goes on
		notes = "\n" + notes
	}
	return shown + notes
}

func (m *metrics) left() error {
	for _, one := range m.all {
		if !m.shown[one.name] {
			return fmt.Errorf("%s: no table of scripts/reference/pages/metrics.md.tmpl has %s", one.path, one.name)
		}
	}
	return nil
}
