package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/fleet"
)

const (
	// askTime is how long queries may take until all of them have an answer: rates need
	// two looks of Prometheus at a figure, and one that came late has to be made again.
	askTime = 5 * time.Minute
	// askEvery is how often is asked again.
	askEvery = time.Second
)

// prometheus is one that runs.
type prometheus struct {
	at    string
	until time.Time
}

// series is one line of an answer.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  []any             `json:"value"`
}

// get asks for a path of its API.
func (p prometheus) get(ctx context.Context, path string, q url.Values, data any) error {
	said := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	resp, err := caller.Ask(ctx, p.at, "/api/v1/"+path+"?"+q.Encode(), &said)
	if err != nil {
		return err
	}
	if said.Status != "success" {
		return fmt.Errorf("%s: %s", resp.Status, said.Error)
	}
	return nil
}

func (p prometheus) query(ctx context.Context, expr string) ([]series, error) {
	var said struct {
		Result []series `json:"result"`
	}
	err := p.get(ctx, "query", url.Values{"query": {expr}}, &said)
	return said.Result, err
}

// eventually asks until there is nothing to complain about, or the time is over.
func (p prometheus) eventually(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil || time.Now().After(p.until) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// targets reports a program of the fleet that Prometheus does not reach.
func (p prometheus) targets(ctx context.Context, f *fleet.Fleet) error {
	want := f.Probes()
	err := p.eventually(ctx, func() error {
		up, err := p.query(ctx, "up == 1")
		if err != nil {
			return err
		}
		for _, one := range want {
			if !slices.ContainsFunc(up, func(s series) bool { return s.Metric["instance"] == one }) {
				return fmt.Errorf("prometheus.yml: %s is not asked, or does not answer", one)
			}
		}
		return nil
	})
	if err == nil {
		fmt.Printf("ok: Prometheus asks %d programs\n", len(want))
	}
	return err
}

// target is a query of a panel.
type target struct {
	Expr     string `json:"expr"`
	Legend   string `json:"legendFormat"`
	Exemplar bool   `json:"exemplar"`
}

// dashboards reports panels without an answer.
func (p prometheus) dashboards(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there is no dashboard in %s", dir)
	}
	asked := 0
	var wrong []error
	for _, file := range files {
		var d struct {
			Panels []struct {
				Title   string   `json:"title"`
				Targets []target `json:"targets"`
			} `json:"panels"`
		}
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, panel := range d.Panels {
			for _, one := range panel.Targets {
				asked++
				if err := p.eventually(ctx, func() error { return p.panel(ctx, one) }); err != nil {
					wrong = append(wrong, fmt.Errorf("%s, %q: %w", filepath.Base(file), panel.Title, err))
				}
			}
		}
	}
	if len(wrong) == 0 {
		fmt.Printf("ok: %d queries of %d dashboards have an answer\n", asked, len(files))
	}
	return errors.Join(wrong...)
}

// legend is a label that a panel shows.
var legend = regexp.MustCompile(`{{(\w+)}}`)

// panel reports what is wrong with one query.
func (p prometheus) panel(ctx context.Context, one target) error {
	found, err := p.query(ctx, one.Expr)
	if err != nil {
		return fmt.Errorf("%s: %w", one.Expr, err)
	}
	if err := p.known(ctx, one.Expr); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: no answer", one.Expr)
	}
	for _, label := range legend.FindAllStringSubmatch(one.Legend, -1) {
		if !slices.ContainsFunc(found, func(s series) bool { return s.Metric[label[1]] != "" }) {
			return fmt.Errorf("%s: no answer has the label %s of the legend", one.Expr, label[1])
		}
	}
	if !one.Exemplar {
		return nil
	}
	var examples []struct {
		Exemplars []struct {
			Labels map[string]string `json:"labels"`
		} `json:"exemplars"`
	}
	now := time.Now()
	err = p.get(ctx, "query_exemplars", url.Values{"query": {one.Expr}, "start": {fmt.Sprint(now.Add(-time.Hour).Unix())}, "end": {fmt.Sprint(now.Add(time.Minute).Unix())}}, &examples)
	if err != nil {
		return fmt.Errorf("%s: %w", one.Expr, err)
	}
	if len(examples) == 0 || len(examples[0].Exemplars) == 0 || examples[0].Exemplars[0].Labels["trace_id"] == "" {
		return fmt.Errorf("%s: no trace as an example", one.Expr)
	}
	return nil
}

var (
	// figure is a name of one; labels are those that a query selects or groups by.
	figure  = regexp.MustCompile(`\b(?:busbar|process|go)_\w+|\bup\b`)
	grouped = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	chosen  = regexp.MustCompile(`[{,]\s*(\w+)(?:=|!=|=~|!~)"`)
)

// elsewhere are figures that no program of this fleet has: the proxy has the certificate.
var elsewhere = []string{"busbar_tls_certificate_expires_seconds"}

// known reports figures and labels of a query that no program has.
func (p prometheus) known(ctx context.Context, expr string) error {
	names := slices.DeleteFunc(figure.FindAllString(expr, -1), func(name string) bool { return slices.Contains(elsewhere, name) })
	for _, name := range names {
		found, err := p.query(ctx, "count("+name+")")
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: no program has %s", expr, name)
		}
	}
	var labels []string
	for _, group := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	}
	for _, one := range chosen.FindAllStringSubmatch(expr, -1) {
		labels = append(labels, one[1])
	}
	for _, label := range labels {
		found, err := p.query(ctx, fmt.Sprintf(`count({__name__=~"%s", %s!=""})`, strings.Join(names, "|"), label))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: %s does not have the label %s", expr, strings.Join(names, " or "), label)
		}
	}
	return nil
}

// alerts reports rules that cannot be evaluated, are about figures that are not there, or
// are told although nothing is wrong.
func (p prometheus) alerts(ctx context.Context) error {
	told := 0
	err := p.eventually(ctx, func() error {
		var all struct {
			Groups []struct {
				Rules []struct {
					Name   string `json:"name"`
					Query  string `json:"query"`
					Health string `json:"health"`
					State  string `json:"state"`
					Error  string `json:"lastError"`
				} `json:"rules"`
			} `json:"groups"`
		}
		if err := p.get(ctx, "rules", nil, &all); err != nil {
			return err
		}
		told = 0
		for _, g := range all.Groups {
			for _, rule := range g.Rules {
				told++
				if rule.Health != "ok" || rule.State == "firing" {
					return fmt.Errorf("alert %s is %s, %s %s, where nothing is wrong", rule.Name, rule.Health, rule.State, rule.Error)
				}
				if err := p.known(ctx, rule.Query); err != nil {
					return fmt.Errorf("alert %s: %w", rule.Name, err)
				}
			}
		}
		if told == 0 {
			return errors.New("prometheus has no alert")
		}
		return nil
	})
	if err == nil {
		fmt.Printf("ok: %d alerts are about figures that are there, and none is told\n", told)
	}
	return err
}

// proof asks what is wrong, which has to be found.
func (p prometheus) proof(ctx context.Context) error {
	for says, wrong := range map[string]target{
		"no program has busbar_call_total":                    {Expr: "sum(rate(busbar_call_total[1m]))"},
		"busbar_calls_total does not have the label gate":     {Expr: "sum by (gate) (rate(busbar_calls_total[1m]))"},
		"busbar_calls_total does not have the label ergebnis": {Expr: `busbar_calls_total{ergebnis!="ok"}`},
		"no answer has the label tool of the legend":          {Expr: "sum by (door) (rate(busbar_calls_total[1m]))", Legend: "{{tool}}"},
		"no answer":                          {Expr: `busbar_calls_total{outcome="none"}`},
		"400":                                {Expr: "sum(busbar_calls_total"},
		"busbar_services: no trace as an ex": {Expr: "busbar_services", Exemplar: true},
	} {
		// Where Prometheus was late to look, all that it asks about is away for a moment.
		if err := p.eventually(ctx, func() error {
			if err := p.panel(ctx, wrong); err == nil || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("%v is not that %s, which is wrong with %s", err, says, wrong.Expr)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	fmt.Println("ok: seven wrong queries are found")
	return nil
}
