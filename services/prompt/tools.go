package prompt

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

//go:embed schema/definition.json
var definitionSchema []byte

// UpdateIn holds the arguments of update_prompt: a definition and the version it replaces.
type UpdateIn struct {
	template.Definition
	Version int64 `json:"version"`
}

// NameIn holds the arguments of list_prompt_versions.
type NameIn struct {
	Name string `json:"name" jsonschema:"Name of the prompt"`
}

// VersionIn holds the arguments of get_prompt and delete_prompt.
type VersionIn struct {
	Name string `json:"name"`
	// Version 0 means the current one, for get_prompt.
	Version int64 `json:"version,omitzero"`
}

// WrittenOut is the result of a change.
type WrittenOut struct {
	Name    string `json:"name"`
	Version int64  `json:"version" jsonschema:"Number of the version that the change made; needed to change the prompt again"`
	Made    string `json:"made" jsonschema:"Time of the change, RFC 3339"`
	Author  string `json:"author" jsonschema:"Author of the change"`
}

// GetOut is the result of get_prompt.
type GetOut struct {
	template.Definition
	Version int64  `json:"version"`
	Made    string `json:"made"`
	Author  string `json:"author"`
}

// VersionsOut is the result of list_prompt_versions.
type VersionsOut struct {
	Name     string       `json:"name"`
	Versions []VersionOut `json:"versions" jsonschema:"Newest first; the oldest may be missing"`
}

// VersionOut is one version of a prompt.
type VersionOut struct {
	Version int64  `json:"version"`
	Made    string `json:"made" jsonschema:"Time of the change, RFC 3339"`
	Author  string `json:"author" jsonschema:"Author of the change"`
	Deleted bool   `json:"deleted" jsonschema:"true if this version deleted the prompt"`
}

// ListOut is the result of list_prompts.
type ListOut struct {
	Prompts []ListedOut `json:"prompts"`
}

// ListedOut is a prompt in a list.
type ListedOut struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Version     int64  `json:"version"`
}

const (
	namePart    = `"name":{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$","description":"Name of the prompt"}`
	versionPart = `"version":{"type":"integer","minimum":1,"description":"Number of the version that this change is based on. If there is a newer one, the call fails with a conflict and changes nothing"}`
	madeParts   = `"version":{"type":"integer"},"made":{"type":"string","description":"Time of the change, RFC 3339"},"author":{"type":"string","description":"Author of the change"}`
)

// object returns the schema of a definition with further properties.
func object(more string, required ...string) ([]byte, error) {
	var s struct {
		Properties jsontext.Value `json:"properties"`
		Defs       jsontext.Value `json:"$defs"`
	}
	if err := json.Unmarshal(definitionSchema, &s); err != nil {
		return nil, err
	}
	properties := bytes.TrimPrefix(s.Properties, []byte("{"))
	if more != "" {
		more += ","
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s%s,"required":["%s"],"additionalProperties":false,"$defs":%s}`,
		more, properties, strings.Join(required, `","`), s.Defs), nil
}

func (s *prompts) addTools() error {
	create, err := object("", "name", "messages")
	if err != nil {
		return err
	}
	update, err := object(versionPart, "version", "name", "messages")
	if err != nil {
		return err
	}
	got, err := object(madeParts, "name", "messages", "version", "made", "author")
	if err != nil {
		return err
	}
	yes, no := true, false
	safe := mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	service.AddTool(s.Service, service.Tool{
		Name: "create_prompt", Title: "Create a prompt", KeepsKeys: true, InputSchema: create, Annotations: safe,
		Description: "Creates a prompt from a template. {{name}} in a text inserts an argument; texts can have conditions and loops. Everyone in your tenant sees the prompt at once.",
	}, func(ctx context.Context, call *service.Call, in template.Definition) (WrittenOut, error) {
		return s.put(ctx, call, in, in, 0)
	})
	service.AddTool(s.Service, service.Tool{
		Name: "update_prompt", Title: "Update a prompt", KeepsKeys: true, InputSchema: update, Annotations: safe,
		Description: "Replaces a prompt by a new version. Earlier versions are kept; see list_prompt_versions and get_prompt.",
	}, func(ctx context.Context, call *service.Call, in UpdateIn) (WrittenOut, error) {
		return s.put(ctx, call, in, in.Definition, in.Version)
	})
	service.AddTool(s.Service, service.Tool{
		Name: "delete_prompt", Title: "Delete a prompt", KeepsKeys: true,
		InputSchema: []byte(`{"type":"object","properties":{` + namePart + `,` + versionPart + `},"required":["name","version"],"additionalProperties":false}`),
		Annotations: mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		Description: "Deletes a prompt. Its versions are kept, and create_prompt can use the name again.",
	}, func(ctx context.Context, call *service.Call, in VersionIn) (WrittenOut, error) {
		return s.write(ctx, call, in, store.Change{Name: in.Name, Seen: in.Version})
	})
	service.AddTool(s.Service, service.Tool{
		Name: "get_prompt", Title: "Get a prompt's template", ReadOnly: true, Annotations: safe, OutputSchema: got,
		InputSchema: []byte(`{"type":"object","properties":{` + namePart + `,"version":{"type":"integer","minimum":1,"description":"The current version if omitted"}},"required":["name"],"additionalProperties":false}`),
		Description: "Returns the template of a prompt, as it is now or as it was in an earlier version.",
	}, s.get)
	service.AddTool(s.Service, service.Tool{
		Name: "list_prompt_versions", Title: "List the versions of a prompt", ReadOnly: true, Annotations: safe,
		InputSchema: []byte(`{"type":"object","properties":{` + namePart + `},"required":["name"],"additionalProperties":false}`),
		Description: "Lists the versions of a prompt with author and time, even after it was deleted.",
	}, s.versions)
	service.AddTool(s.Service, service.Tool{
		Name: "list_prompts", Title: "List prompts", ReadOnly: true, Annotations: safe,
		Description: "Lists the prompts with their current version numbers.",
	}, s.list)
	return nil
}

// put makes a definition the current version of its prompt.
func (s *prompts) put(ctx context.Context, call *service.Call, in any, d template.Definition, seen int64) (WrittenOut, error) {
	t, err := template.Compile(d)
	if err != nil {
		return WrittenOut{}, service.Errorf("The template is not valid: %v", err)
	}
	definition, err := d.JSON()
	if err != nil {
		return WrittenOut{}, err
	}
	listed, size, err := fits(t)
	if err != nil {
		return WrittenOut{}, err
	}
	return s.write(ctx, call, in, store.Change{Name: d.Name, Definition: definition, Seen: seen, Entry: size, Listed: listed})
}

func (s *prompts) write(ctx context.Context, call *service.Call, in any, c store.Change) (WrittenOut, error) {
	c.Tenant, c.Author = call.Tenant(), clip(call.Principal())
	var err error
	if c.Once, err = database.KeyOf(call, in); err != nil {
		return WrittenOut{}, err
	}
	v, err := s.store.Write(ctx, c)
	if err != nil {
		return WrittenOut{}, s.ofEverybody(ctx, c, err)
	}
	// The change is made whatever happens now: the next reader here must find it, and the
	// other instances must be notified.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if c.Tenant != "" {
		err = s.PromptsUpdated(after, c.Tenant)
	} else {
		err = s.refresh(after)
		s.Changed()
	}
	if err != nil {
		s.Logger().Warn("a changed prompt is not served yet, or other instances were not notified; they follow at their next check", "prompt", c.Name, "error", err)
	}
	return WrittenOut{Name: v.Name, Version: v.Number, Made: v.Made.Format(time.RFC3339Nano), Author: v.Author}, nil
}

// clip shortens a name so that every database accepts it.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}

func (s *prompts) get(ctx context.Context, call *service.Call, in VersionIn) (GetOut, error) {
	v, err := own(call.Tenant(), func(tenant string) (store.Version, error) { return s.store.Get(ctx, tenant, in.Name, in.Version) })
	if err != nil {
		return GetOut{}, err
	}
	d, err := template.FromJSON(v.Definition)
	if err != nil {
		return GetOut{}, fmt.Errorf("prompt %s in version %d: %w", v.Name, v.Number, err)
	}
	return GetOut{Definition: *d, Version: v.Number, Made: v.Made.Format(time.RFC3339Nano), Author: v.Author}, nil
}

func (s *prompts) versions(ctx context.Context, call *service.Call, in NameIn) (VersionsOut, error) {
	all, err := own(call.Tenant(), func(tenant string) ([]store.Version, error) { return s.store.Versions(ctx, tenant, in.Name) })
	if err != nil {
		return VersionsOut{}, err
	}
	out := VersionsOut{Name: in.Name}
	for _, v := range all {
		out.Versions = append(out.Versions, VersionOut{v.Number, v.Made.Format(time.RFC3339Nano), v.Author, v.Deleted})
	}
	return out, nil
}

func (s *prompts) list(ctx context.Context, call *service.Call, _ struct{}) (ListOut, error) {
	all, err := s.all(ctx, call.Tenant())
	if err != nil {
		return ListOut{}, err
	}
	out := ListOut{Prompts: []ListedOut{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out.Prompts = append(out.Prompts, all[name])
	}
	return out, nil
}
