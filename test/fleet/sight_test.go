package fleet

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/yamljson"
)

// read is a file of the checkout, as the JSON that it stands for, in v.
func read(t *testing.T, name string, v any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err == nil && strings.HasSuffix(name, ".yml") {
		raw, err = yamljson.Object(raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, v, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var figure = regexp.MustCompile(`busbar_\w+`)

// documented reports figures of a query that no program has. "make sight" asks them too.
func documented(t *testing.T, where, query string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range figure.FindAllString(query, -1) {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+strings.TrimSuffix(name, "_count")+"`") {
			t.Errorf("%s: no program has %s", where, name)
		}
	}
}

// Panels are called by the question that they answer, of figures that there are.
func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "deploy/compose/grafana/dashboards/*.json"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	ids := map[string]bool{}
	for _, file := range files {
		var d struct {
			UID    string
			Panels []struct {
				ID      int
				Title   string
				Targets []struct{ Expr string }
			}
		}
		name, _ := filepath.Rel(root, file)
		read(t, name, &d)
		if d.UID == "" || ids[d.UID] || len(d.Panels) == 0 {
			t.Errorf("%s: uid %q, %d panels", name, d.UID, len(d.Panels))
		}
		ids[d.UID] = true
		for i, p := range d.Panels {
			if p.ID != i+1 || !strings.HasSuffix(p.Title, "?") || len(p.Targets) == 0 {
				t.Errorf("%s: panel %+v", name, p)
			}
			for _, one := range p.Targets {
				documented(t, name, one.Expr)
			}
		}
	}
}

// An alert has a place in docs/guides/operate.md that says what to do, and is tried both ways.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	read(t, "deploy/compose/alerts.yml", &rules)
	var tried struct {
		Tests []struct {
			Cases []struct {
				Alert string           `json:"alertname"`
				Told  []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, "deploy/compose/alerts_test.yml", &tried)
	told, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tried.Tests {
		for _, c := range test.Cases {
			told[c.Alert] = told[c.Alert] || len(c.Told) > 0
			silent[c.Alert] = silent[c.Alert] || len(c.Told) == 0
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/guides/operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## When an alert fires\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(section, -1) {
		headings = append(headings, m[1])
	}
	var names []string
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
			if !told[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: alerts_test.yml has it told %t, and silent %t", r.Alert, told[r.Alert], silent[r.Alert])
			}
			if want := "https://github.com/busbar-mcp/busbar/blob/main/docs/guides/operate.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want || r.Annotations["summary"] == "" {
				t.Errorf("%s: %v; its runbook is %s", r.Alert, r.Annotations, want)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			documented(t, r.Alert, r.Expr)
		}
	}
	if len(names) < 10 || !slices.Equal(names, headings) {
		t.Errorf("alerts are %q, and docs/guides/operate.md has %q", names, headings)
	}
}
