package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// NameKind is the kind of thing that a name belongs to.
type NameKind string

// Kinds of names that one service can have at a time.
const (
	ToolName     NameKind = "tools"
	PromptName   NameKind = "prompts"
	ResourceName NameKind = "resources"
	TemplateName NameKind = "templates"
	PrefixName   NameKind = "prefixes"
	SkillName    NameKind = "skills"
	// ModelName is for the one model that callers without a model get; its name is empty.
	ModelName NameKind = "model"
	// TenantPromptsName is for the tenants' own prompts, which one service keeps; its name is
	// empty.
	TenantPromptsName NameKind = "tenant-prompts"
	// listerName is not an exclusive name: any service may list resources.
	listerName NameKind = "lists"
)

// Name is something that one service can have at a time.
type Name struct {
	Kind NameKind
	Name string
}

// ParseName reads a name as String writes it: tools/echo, resources/file:///x, model or
// tenant-prompts.
func ParseName(s string) (Name, error) {
	kind, name, _ := strings.Cut(s, "/")
	switch n := (Name{NameKind(kind), name}); n.Kind {
	case ToolName, PromptName, ResourceName, TemplateName, SkillName:
		if name != "" {
			return n, nil
		}
	case PrefixName:
		return n, nil // the empty prefix covers any URI
	case ModelName, TenantPromptsName:
		if name == "" {
			return n, nil
		}
	}
	return Name{}, fmt.Errorf("%q is not a valid name: write tools/NAME, prompts/NAME, resources/URI, templates/URI-TEMPLATE, prefixes/PREFIX, skills/NAME, model or tenant-prompts", s)
}

func (n Name) String() string {
	if n.Kind == ModelName || n.Kind == TenantPromptsName {
		return string(n.Kind)
	}
	return string(n.Kind) + "/" + n.Name
}

// words is the name for people.
func (n Name) words() string {
	switch n.Kind {
	case ModelName:
		return "the model"
	case TenantPromptsName:
		return "the place of tenants' prompts"
	}
	what := map[NameKind]string{
		ToolName: "tool", PromptName: "prompt", ResourceName: "resource", TemplateName: "resource template",
		PrefixName: "resource prefix", SkillName: "skill",
	}[n.Kind]
	return fmt.Sprintf("%s %q", what, fault.Clip(n.Name))
}

// key is the key of the name in the bucket. The name itself may have any characters.
func (n Name) key() string {
	sum := sha256.Sum256([]byte(n.Name))
	return string(n.Kind) + "." + hex.EncodeToString(sum[:16])
}

// Conflict is a name that a service offers but does not have.
type Conflict struct {
	Name    Name
	Service string
	// Owner is the service that has it; empty while that is undecided.
	Owner string
	// Reads is the name by which the owner reads the URIs of this name, because it had that
	// before; the zero Name if the owner has this very name.
	Reads Name
	// Ungranted: the policy file does not grant it the name.
	Ungranted bool
}

func (c Conflict) String() string {
	if c.Ungranted {
		but := ""
		if c.Owner != "" {
			but = ", but to " + c.Owner
		}
		return fmt.Sprintf("%s of service %s is left out: services.%s.offers of the policy file does not grant it%s", c.Name.words(), c.Service, c.Service, but)
	}
	if c.Owner == "" {
		return fmt.Sprintf("%s of service %s is left out: others offer it as well, and the bucket that says whose it is does not answer", c.Name.words(), c.Service)
	}
	if c.Reads.Kind == SkillName {
		return fmt.Sprintf("%s of service %s is left out: it is a file of a skill of service %s", c.Name.words(), c.Service, c.Owner)
	}
	if c.Reads != (Name{}) {
		return fmt.Sprintf("%s of service %s is left out: service %s came first and reads such URIs by its %s; \"busbar services assign %s %s\" moves them", c.Name.words(), c.Service, c.Owner, c.Reads.words(), c.Name, c.Service)
	}
	return fmt.Sprintf("%s of service %s is left out: the name belongs to service %s; \"busbar services assign %s %s\" moves it", c.Name.words(), c.Service, c.Owner, c.Name, c.Service)
}

// Conflicts are the names that services offer but do not have.
func (s *Snapshot) Conflicts() []Conflict { return s.conflicts }

// offered are the names that services offer and may have, each with its services, sorted.
func offered(services []registry.Service, grants Grants) map[Name][]string {
	all := map[Name][]string{}
	for _, svc := range services {
		add := func(kind NameKind, name string) {
			n := Name{kind, name}
			if grants != nil {
				if ok, _ := grants.Offers(svc.Name, n); !ok {
					return
				}
			}
			if by := all[n]; len(by) == 0 || by[len(by)-1] != svc.Name {
				all[n] = append(by, svc.Name)
			}
		}
		for _, r := range svc.Releases {
			for _, t := range r.Catalogue.GetTools() {
				add(ToolName, t.Name)
			}
		}
		c := svc.Catalogue
		for _, p := range c.GetPrompts() {
			add(PromptName, p.Name)
		}
		for _, r := range c.GetResources() {
			add(ResourceName, r.Uri)
		}
		for _, r := range c.GetResourceTemplates() {
			add(TemplateName, r.UriTemplate)
		}
		for _, p := range c.GetResourcePrefixes() {
			add(PrefixName, p)
		}
		for _, k := range c.GetSkills() {
			add(SkillName, k.Name)
		}
		if c.GetSamples() {
			add(ModelName, "")
		}
		if c.GetListsPrompts() {
			add(TenantPromptsName, "")
		}
	}
	return all
}
