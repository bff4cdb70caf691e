package edge

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// ListGrants is the command line that prints grants for the services of a bus, from their
// own announcements. The tags are read by kong.
type ListGrants struct{ busFlags }

// Help implements kong's HelpProvider.
func (ListGrants) Help() string {
	return `Example: busbar access services --nats nats://127.0.0.1:4222

Prints the section "services" of a policy file that grants each service now on
the bus what it offers and asks for. Read it before you put it into the file:
services get nothing that it does not grant.`
}

// Run prints the section to out.
func (c *ListGrants) Run(ctx context.Context, out io.Writer) error {
	look := lookFlags{busFlags: c.busFlags}
	conn, live, err := look.look(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer live.Close()
	var b strings.Builder
	b.WriteString("services:\n")
	for _, s := range live.Services() {
		fmt.Fprintf(&b, "  %s:%s\n", s.Name, cmp.Or(grants(s, live.Now()), " {}"))
	}
	if len(live.Services()) == 0 {
		return fmt.Errorf("there are no services on the bus")
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// grants is the section of a service as YAML: its offers, and the powers that it says it
// needs.
func grants(s registry.Service, now *catalogue.Snapshot) string {
	var b strings.Builder
	list := func(key string, all []string) {
		if len(all) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n    %s:", key)
		for _, one := range widest(all) {
			text, _ := json.Marshal(one) // JSON is YAML, and this text came as JSON
			fmt.Fprintf(&b, "\n      - %s", text)
		}
	}
	list("offers", offersOf(s, now))
	calls, shared, longest, readOnly := powersOf(s.Catalogue)
	if calls {
		list("calls", []string{"tools/*"})
	}
	if len(readOnly) > 0 {
		list("read_only", readOnly)
	} else {
		b.WriteString("\n    read_only: []")
	}
	if shared {
		b.WriteString("\n    cache_for_all: true")
	}
	if longest > bus.DefaultTimeout {
		fmt.Fprintf(&b, "\n    timeout: %s", longest)
	}
	return b.String()
}

// widest are the patterns, sorted, without those that another one covers.
func widest(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(slices.Clone(all), func(p string) bool {
		return slices.ContainsFunc(all, func(o string) bool {
			begins, wide := strings.CutSuffix(o, "*")
			return wide && o != p && strings.HasPrefix(p, begins)
		})
	})
}

// offersOf are patterns for the offers of a service, without names that belong to another
// service.
func offersOf(s registry.Service, now *catalogue.Snapshot) (all []string) {
	c := s.Catalogue
	add := func(kind catalogue.NameKind, name, pattern string) {
		lost := func(x catalogue.Conflict) bool {
			return x.Service == s.Name && x.Name == catalogue.Name{Kind: kind, Name: name}
		}
		if !slices.ContainsFunc(now.Conflicts(), lost) {
			all = append(all, pattern)
		}
	}
	for _, t := range c.GetTools() {
		add(catalogue.ToolName, t.Name, "tools/"+t.Name)
	}
	for _, p := range c.GetPrompts() {
		add(catalogue.PromptName, p.Name, "prompts/"+p.Name)
	}
	for _, r := range c.GetResources() {
		add(catalogue.ResourceName, r.Uri, "resources/"+r.Uri)
	}
	for _, t := range c.GetResourceTemplates() {
		begins, _, _ := strings.Cut(t.UriTemplate, "{")
		add(catalogue.TemplateName, t.UriTemplate, "resources/"+begins+"*")
	}
	for _, p := range c.GetResourcePrefixes() {
		add(catalogue.PrefixName, p, "resources/"+p+"*")
	}
	for _, k := range c.GetSkills() {
		add(catalogue.SkillName, k.Name, "resources/"+mcp.SkillURI(s.Name, k.Name, ".")+"/*")
	}
	if c.GetSamples() {
		add(catalogue.ModelName, "", "sampling/createMessage")
	}
	if c.GetListsPrompts() {
		add(catalogue.TenantPromptsName, "", "prompts/*")
	}
	return all
}

// powersOf are the powers that the tools of a service say they need.
func powersOf(c *busv1.Catalogue) (calls, shared bool, longest time.Duration, readOnly []string) {
	for _, t := range c.GetTools() {
		if t.ReadOnly || t.Idempotent {
			readOnly = append(readOnly, "tools/"+t.Name)
		}
		calls, shared = calls || t.CallsTools, shared || t.CacheShared
		longest = max(longest, time.Duration(t.TimeoutMs)*time.Millisecond)
	}
	return calls, shared, longest, readOnly
}
