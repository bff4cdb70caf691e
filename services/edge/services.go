package edge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// busFlags say which bus to join.
type busFlags struct{ join.Flags }

// connect joins the bus as its operator. It does not retry, because a person waits.
func (f busFlags) connect(ctx context.Context) (*bus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return f.ConnectNow(ctx, permission.Operator, "operator")
}

// lookFlags say which bus to join, and what its services may do.
type lookFlags struct {
	busFlags
	Access string `env:"BUSBAR_ACCESS" placeholder:"FILE" help:"Policy file of the edges, which says what services may do. Without it, they may do what they say."`
}

// look returns the catalogue, as edges have it. Close both.
func (f *lookFlags) look(ctx context.Context) (*bus.Conn, *catalogue.Live, error) {
	cfg := catalogue.Config{Logger: slog.New(slog.DiscardHandler), Look: true}
	if f.Access != "" {
		p, err := access.ReadPolicy(f.Access)
		if err != nil {
			return nil, nil, err
		}
		cfg.Grants = func() catalogue.Grants { return p }
	}
	conn, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	live, err := catalogue.Open(ctx, conn, cfg)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, live, nil
}

// surveyTime is how long instances have to answer that they run.
const surveyTime = time.Second

// hear waits for the announcements of running instances that are missing in the registry:
// a full registry keeps no new ones. Each instance announces itself within
// registry.BeatEvery, give or take a fifth, and hear waits no longer. It returns the
// instances' own reports.
func hear(ctx context.Context, conn *bus.Conn, live *catalogue.Live) (readings []bus.Reading) {
	readings, err := conn.Survey(ctx, surveyTime)
	if err != nil {
		return nil // services answer only operators, so the registry's content has to do
	}
	running := map[string][]string{}
	for _, r := range readings {
		running[r.Service] = append(running[r.Service], r.Instance)
	}
	ctx, cancel := context.WithTimeout(ctx, registry.BeatEvery*6/5+surveyTime)
	defer cancel()
	_ = live.AwaitInstances(ctx, running)
	return readings
}

// ListServices is the command line that lists the services on the bus. The tags are read
// by kong.
type ListServices struct {
	lookFlags
	JSON bool `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
	// Show prints the table for a terminal; nil prints a line for each service, with tabs.
	Show func(titles []string, rows [][]string) error `kong:"-"`
}

// Help implements kong's HelpProvider.
func (ListServices) Help() string {
	return `Examples:
  busbar services --nats nats://127.0.0.1:4222
  busbar services --access access.yaml

Prints each service with its state, the age of its oldest instance, the number of
instances, and calls and errors since these started; then what is left out, and
why. A version is "not listed" if clients see what another version offers.`
}

// serviceLine describes one release of a service.
type serviceLine struct {
	Service string `json:"service"`
	Version string `json:"version"`
	// Others are versions of instances that offer the same.
	Others    []string       `json:"otherVersions,omitzero"`
	Digest    string         `json:"digest"`
	Instances []string       `json:"instances"`
	Offers    map[string]int `json:"offers"`
	// Listed is set if clients see this release's offers.
	Listed bool `json:"listed"`
	// State is "ready", "not ready", "no answer" if no instance answers, or for example
	// "1 of 3 ready".
	State string `json:"state"`
	// NotReady are the reasons of instances that are not ready.
	NotReady []string `json:"notReady,omitzero"`
	// Started is when the oldest instance started; zero if none answers.
	Started time.Time `json:"started,omitzero"`
	// Calls and Errors are counts since the instances started.
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"`
}

// count adds the figures that instances report.
func (s *serviceLine) count(readings []bus.Reading) {
	answers, ready := 0, 0
	for _, r := range readings {
		if r.Service != s.Service || !slices.Contains(s.Instances, r.Instance) {
			continue
		}
		answers++
		s.Calls, s.Errors = s.Calls+r.Served, s.Errors+r.Failed
		if s.Started.IsZero() || !r.Started.IsZero() && r.Started.Before(s.Started) {
			s.Started = r.Started
		}
		if r.NotReady == "" {
			ready++
		} else {
			s.NotReady = append(s.NotReady, r.NotReady)
		}
	}
	switch {
	case answers == 0:
		s.State = "no answer"
	case ready == len(s.Instances):
		s.State = "ready"
	case ready == 0 && answers == len(s.Instances):
		s.State = "not ready"
	default:
		s.State = fmt.Sprintf("%d of %d ready", ready, len(s.Instances))
	}
}

// serviceTitles are the columns of the list. Those that start with ">" are numbers.
var serviceTitles = []string{"SERVICE", "VERSION", "STATE", ">AGE", ">INSTANCES", ">CALLS", ">ERRORS", "OFFERS"}

func (s *serviceLine) cells(now time.Time) []string {
	state, age := s.State, "-"
	if !s.Listed {
		state = "not listed, " + state
	}
	if !s.Started.IsZero() {
		age = ageOf(now.Sub(s.Started))
	}
	return []string{
		s.Service, strings.Join(append([]string{s.Version}, s.Others...), ", "), state, age, strconv.Itoa(len(s.Instances)),
		strconv.FormatInt(s.Calls, 10), strconv.FormatInt(s.Errors, 10), counted(s.Offers),
	}
}

// ageOf is a duration in its two largest units.
func ageOf(d time.Duration) string {
	d = max(d, 0)
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

type conflictLine struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	Owner   string `json:"owner"`
	// Ungranted is set if the policy file does not grant the name.
	Ungranted bool `json:"ungranted,omitzero"`
}

// Run prints the list to out.
func (c *ListServices) Run(ctx context.Context, out io.Writer) error {
	conn, live, err := c.look(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer live.Close()
	readings := hear(ctx, conn, live)
	now := live.Now()
	var services []serviceLine
	for _, s := range live.Services() {
		for i, r := range s.Releases {
			line := serviceLine{
				Service: s.Name, Version: r.Version, Others: r.Others, Digest: r.Digest[:12], Instances: r.Instances,
				Offers: offers(r.Catalogue), Listed: i == 0,
			}
			line.count(readings)
			services = append(services, line)
		}
	}
	var conflicts []conflictLine
	for _, x := range now.Conflicts() {
		conflicts = append(conflicts, conflictLine{x.Name.String(), x.Service, x.Owner, x.Ungranted})
	}
	if c.JSON {
		return json.MarshalWrite(out, map[string]any{"services": services, "conflicts": conflicts, "ungranted": now.Ungranted(), "waiting": now.Quarantined()},
			json.Deterministic(true), json.FormatNilSliceAsNull(false), jsontext.Multiline(true))
	}
	if len(services) == 0 {
		_, err := fmt.Fprintln(out, "no services on the bus")
		return err
	}
	rows := make([][]string, len(services))
	for i, s := range services {
		rows[i] = s.cells(time.Now())
	}
	show := c.Show
	if show == nil {
		show = func(titles []string, rows [][]string) error {
			for _, row := range slices.Concat([][]string{titles}, rows) {
				if _, err := fmt.Fprintln(out, strings.ReplaceAll(strings.Join(row, "\t"), ">", "")); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := show(serviceTitles, rows); err != nil {
		return err
	}
	for _, p := range slices.Concat(now.Problems(), now.Ungranted(), now.Waiting()) {
		if _, err := fmt.Fprintln(out, p); err != nil {
			return err
		}
	}
	return nil
}

func offers(c *busv1.Catalogue) map[string]int {
	all := map[string]int{}
	for what, n := range map[string]int{
		"tools": len(c.GetTools()), "prompts": len(c.GetPrompts()), "resources": len(c.GetResources()),
		"templates": len(c.GetResourceTemplates()), "prefixes": len(c.GetResourcePrefixes()), "skills": len(c.GetSkills()),
	} {
		if n > 0 {
			all[what] = n
		}
	}
	if c.GetSamples() {
		all["models"] = 1
	}
	return all
}

func counted(offers map[string]int) string {
	var parts []string
	for what, n := range offers {
		if n == 1 {
			what = strings.TrimSuffix(strings.Replace(what, "prefixes", "prefix", 1), "s")
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// AssignName is the command line that assigns a name to a service.
type AssignName struct {
	busFlags
	Name    string `arg:"" help:"What the service is to have: tools/NAME, prompts/NAME, resources/URI, templates/URI-TEMPLATE, prefixes/PREFIX, skills/NAME, model or tenant-prompts."`
	Service string `arg:"" help:"The service that is to have it, whether it is there now or not."`
}

// Help implements kong's HelpProvider.
func (AssignName) Help() string {
	return `Example: busbar services assign tools/analyzeText text

A name belongs to the service that offered it first, until that service has not
been seen for 7 days. This gives the name to another. It takes a NATS user that
may write the bucket "names" and publish to the audit trail, which records it.`
}

// Run moves the name, and prints that.
func (c *AssignName) Run(ctx context.Context, out io.Writer) error {
	name, err := catalogue.ParseName(c.Name)
	if err != nil {
		return err
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = audit.Operation(ctx, conn, "busbar/names.assign", name.String(), c.Service, func() error { return catalogue.Assign(ctx, conn, name, c.Service) })
	if err != nil {
		return fmt.Errorf("assign %s: %w", name, err)
	}
	_, err = fmt.Fprintf(out, "%s belongs to service %s now\n", name, c.Service)
	return err
}
