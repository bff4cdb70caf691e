package edge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
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

// busFlags say which bus.
type busFlags struct{ join.Flags }

// connect joins the bus as its operator, at once or not at all: a person waits.
func (f busFlags) connect(ctx context.Context) (*bus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return f.ConnectNow(ctx, permission.Operator, "operator")
}

// lookFlags say which bus, and what its services may do.
type lookFlags struct {
	busFlags
	Access string `env:"BUSBAR_ACCESS" placeholder:"FILE" help:"Policy file of the edges, which says what services may do. Without it, they may do what they say."`
}

// look returns the catalogue as the edges have it. Close both.
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

// surveyTime is how long instances have to say that they run.
const surveyTime = time.Second

// hear waits for the announcements of instances that run and that the registry does not
// have, as one that is full keeps no new ones. Each announces itself within
// registry.BeatEvery, give or take a fifth. What is made up is waited for no longer.
func hear(ctx context.Context, conn *bus.Conn, live *catalogue.Live) {
	readings, err := conn.Survey(ctx, surveyTime)
	if err != nil {
		return // services answer to operators alone, and the registry says what it has
	}
	running := map[string][]string{}
	for _, r := range readings {
		running[r.Service] = append(running[r.Service], r.Instance)
	}
	ctx, cancel := context.WithTimeout(ctx, registry.BeatEvery*6/5+surveyTime)
	defer cancel()
	_ = live.AwaitInstances(ctx, running)
}

// ListServices is the command line that lists what is on the bus. The tags are
// read by kong.
type ListServices struct {
	lookFlags
	JSON bool `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (ListServices) Help() string {
	return `Examples:
  busbar services --nats nats://127.0.0.1:4222
  busbar services --access access.yaml`
}

// serviceLine is what is said of one release of a service.
type serviceLine struct {
	Service string `json:"service"`
	Version string `json:"version"`
	// Others are versions of instances that offer the same.
	Others    []string       `json:"otherVersions,omitzero"`
	Digest    string         `json:"digest"`
	Instances []string       `json:"instances"`
	Offers    map[string]int `json:"offers"`
	// Listed: clients see what this release offers.
	Listed bool `json:"listed"`
}

type conflictLine struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	Owner   string `json:"owner"`
	// Ungranted: the policy file does not grant the name.
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
	hear(ctx, conn, live)
	now := live.Now()
	var services []serviceLine
	for _, s := range live.Services() {
		for i, r := range s.Releases {
			services = append(services, serviceLine{s.Name, r.Version, r.Others, r.Digest[:12], r.Instances, offers(r.Catalogue), i == 0})
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
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SERVICE\tVERSION\tINSTANCES\tOFFERS")
	for _, s := range services {
		name := s.Service
		if !s.Listed {
			name = "  not listed:"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, strings.Join(append([]string{s.Version}, s.Others...), ", "), strings.Join(s.Instances, " "), counted(s.Offers))
	}
	if err := table.Flush(); err != nil {
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

// AssignName is the command line that gives a name to a service.
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

// Run moves the name, and says so.
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
	_, err = fmt.Fprintf(out, "%s is that of service %s now\n", name, c.Service)
	return err
}
