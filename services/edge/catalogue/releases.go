package catalogue

import (
	"crypto/sha256"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
)

// releases are the catalogues of a service's releases that run, and the digest of each name in each
// of them. A service with a single release has only that.
type releases struct {
	all     []registry.Release
	digests []map[Name][sha256.Size]byte
	// instances is the number of instances, including instances of unknown releases.
	instances int
}

func releasesOf(svc registry.Service) *releases {
	r := &releases{all: svc.Releases, instances: len(svc.Instances)}
	if len(svc.Releases) == 0 || len(svc.Releases[0].Instances) == len(svc.Instances) {
		return r
	}
	for _, one := range svc.Releases {
		r.digests = append(r.digests, digestsOf(one.Catalogue))
	}
	return r
}

func (r *releases) version(svc registry.Service, i int) string {
	if i < len(r.all) {
		return r.all[i].Version
	}
	return svc.Version
}

// alike returns the instances that have a name in the form of release i; nil for all.
func (r *releases) alike(i int, n Name) []string {
	if r.digests == nil {
		return nil
	}
	var names []string
	for j, digests := range r.digests {
		if digest, ok := digests[n]; ok && digest == r.digests[i][n] {
			names = append(names, r.all[j].Instances...)
		}
	}
	if len(names) == r.instances {
		return nil
	}
	return names
}

// first returns the youngest release that has a name in the form of release i.
func (r *releases) first(n Name, i int) int {
	for j := range i {
		if digest, ok := r.digests[j][n]; ok && digest == r.digests[i][n] {
			return j
		}
	}
	return i
}

// digestsOf are the digests of the names in a catalogue, of the parts that calls depend on.
func digestsOf(c *busv1.Catalogue) map[Name][sha256.Size]byte {
	digests := map[Name][sha256.Size]byte{}
	add := func(kind NameKind, name string, entry proto.Message) {
		said, _ := proto.MarshalOptions{Deterministic: true}.Marshal(entry) // it was read from the bus
		digests[Name{kind, name}] = sha256.Sum256(said)
	}
	for _, t := range c.GetTools() {
		// Texts for people do not matter. So all instances stay in use during an update that
		// changes only such texts.
		called := proto.CloneOf(t)
		called.Json = outputSchema(t.Json)
		add(ToolName, t.Name, called)
	}
	for _, p := range c.GetPrompts() {
		add(PromptName, p.Name, p)
	}
	for _, e := range c.GetResources() {
		add(ResourceName, e.Uri, e)
	}
	for _, e := range c.GetResourceTemplates() {
		add(TemplateName, e.UriTemplate, e)
	}
	for _, k := range c.GetSkills() {
		add(SkillName, k.Name, k)
	}
	for _, begins := range c.GetResourcePrefixes() {
		add(PrefixName, begins, &busv1.Catalogue{})
	}
	if c.GetListsResources() {
		add(listerName, "", &busv1.Catalogue{})
	}
	if c.GetSamples() {
		add(ModelName, "", &busv1.Catalogue{})
	}
	if c.GetListsPrompts() {
		add(TenantPromptsName, "", &busv1.Catalogue{})
	}
	return digests
}

func outputSchema(tool []byte) []byte {
	var about struct {
		Output jsontext.Value `json:"outputSchema,omitzero"`
	}
	if json.Unmarshal(tool, &about) != nil {
		return tool
	}
	return about.Output
}
