package streamable_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// Files of a skill.
const (
	skillMain  = "---\nname: forms\ndescription: Fills in forms.\n---\n"
	skillImage = "\x89PNG\r\n\x1a\n"
)

// withSkill is a world with a service that has a skill.
func withSkill(t *testing.T) *edgetest.World {
	t.Helper()
	w := start(t)
	s := service.New("guides", service.WithLogger(bustest.Logger(t)))
	s.AddSkill(fstest.MapFS{
		mcp.SkillFile:   {Data: []byte(skillMain)},
		"ref/image.png": {Data: []byte(skillImage)},
	})
	edgetest.Serve(t, bustest.Connect(t, w.Bus), s)
	if err := w.Edge.Await(t.Context(), s.Name()); err != nil {
		t.Fatal(err)
	}
	return w
}

// The extension's methods, without the header Mcp-Name.
func TestSkills(t *testing.T) {
	t.Parallel()
	w := withSkill(t)
	digest := func(data string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))) }
	entry := `{"uri":"skill://guides/forms/SKILL.md","frontmatter":{"name":"forms","description":"Fills in forms."},"resources":[` +
		`{"uri":"skill://guides/forms/SKILL.md","digest":"` + digest(skillMain) + `","size":49},` +
		`{"uri":"skill://guides/forms/ref/image.png","digest":"` + digest(skillImage) + `","size":8}]}`
	for name, c := range map[string]struct {
		method, name, params, path, want string
		cached                           string
	}{
		"skills/list": {mcp.MethodSkillsList, "", "", "skills", "[" + entry + "]", `"public"`},
		"skills/get":  {mcp.MethodSkillsGet, "", `"uri":"skill://guides/forms/SKILL.md"`, "skill", entry, `"public"`},
		"the skill's directory": {mcp.MethodDirectoryRead, "", `"uri":"skill://guides/forms"`, "resources",
			`[{"uri":"skill://guides/forms/SKILL.md","name":"forms","description":"Fills in forms.","mimeType":"text/markdown","size":49},{"uri":"skill://guides/forms/ref","name":"ref","mimeType":"inode/directory"}]`, ""},
		"a directory below": {mcp.MethodDirectoryRead, "", `"uri":"skill://guides/forms/ref"`, "resources", `[{"uri":"skill://guides/forms/ref/image.png","name":"image.png","mimeType":"image/png","size":8}]`, ""},
		"a file not listed": {mcp.MethodResourcesRead, "skill://guides/forms/ref/image.png", `"uri":"skill://guides/forms/ref/image.png"`, "contents", `[{"uri":"skill://guides/forms/ref/image.png","mimeType":"image/png","blob":"iVBORw0KGgo="}]`, `"private"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Ask(t, c.method, c.name, c.params)
			m := r.Message(t)
			if r.StatusCode != http.StatusOK || m.Error != nil {
				t.Fatalf("status %d: %s", r.StatusCode, r.Bytes)
			}
			if got := m.Field(c.path); got != c.want {
				t.Errorf("%s is\n%s, want\n%s", c.path, got, c.want)
			}
			if m.Field("resultType") != `"complete"` || m.Field("cacheScope") != c.cached {
				t.Errorf("result %s", r.Bytes)
			}
		})
	}
	for name, c := range map[string]struct {
		method, params string
		status         int
		reason         string
	}{
		"an unknown skill":              {mcp.MethodSkillsGet, `"uri":"skill://guides/none/SKILL.md"`, 200, "unknown_resource"},
		"a file that is no SKILL.md":    {mcp.MethodSkillsGet, `"uri":"skill://guides/forms/ref/image.png"`, 200, "unknown_resource"},
		"a skill's directory":           {mcp.MethodSkillsGet, `"uri":"skill://guides/forms"`, 200, "unknown_resource"},
		"no skill's URI":                {mcp.MethodSkillsGet, "", 400, "invalid_params"},
		"an unknown directory":          {mcp.MethodDirectoryRead, `"uri":"skill://guides/none"`, 200, "unknown_resource"},
		"a directory that is a file":    {mcp.MethodDirectoryRead, `"uri":"skill://guides/forms/SKILL.md"`, 400, "invalid_params"},
		"a directory that is a note":    {mcp.MethodDirectoryRead, `"uri":"note:///one"`, 400, "invalid_params"},
		"no directory's URI":            {mcp.MethodDirectoryRead, "", 400, "invalid_params"},
		"a foreign cursor":              {mcp.MethodSkillsList, `"cursor":"x"`, 400, "invalid_params"},
		"a directory's foreign cursor":  {mcp.MethodDirectoryRead, `"uri":"skill://guides/forms","cursor":"x"`, 400, "invalid_params"},
		"a directory that is not there": {mcp.MethodDirectoryRead, `"uri":"skill://guides/forms/","cursor":"x"`, 200, "unknown_resource"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.Ask(t, c.method, "", c.params).Refused(t, c.status, mcp.CodeInvalidParams, c.reason)
		})
	}
}

// Before 2026-07-28 skills are resources like others.
func TestSkillsOfLegacyClients(t *testing.T) {
	t.Parallel()
	w := withSkill(t)
	h := w.Initialize(t, mcp.V20251125, "{}")
	for _, c := range [][2]string{{mcp.MethodSkillsList, ""}, {mcp.MethodSkillsGet, `"uri":"skill://guides/forms/SKILL.md"`}, {mcp.MethodDirectoryRead, `"uri":"skill://guides/forms"`}} {
		w.Post(t, h, edgetest.Legacy("1", c[0], c[1])).Refused(t, 200, mcp.CodeMethodNotFound, "method_not_found")
	}
	if r := w.Post(t, header{}, edgetest.Initialize(mcp.V20251125)); strings.Contains(string(r.Bytes), "extensions") {
		t.Errorf("a legacy client is told of extensions: %s", r.Bytes)
	}
	m := w.Post(t, h, edgetest.Legacy("1", mcp.MethodResourcesRead, `"uri":"skill://guides/forms/ref/image.png"`)).Answer(t)
	if m.Error != nil || m.Field("contents") == "" {
		t.Errorf("a file is not read: %+v", m)
	}
	m = w.Post(t, h, edgetest.Legacy("1", mcp.MethodResourcesList, "")).Message(t)
	if list := m.Field("resources"); !strings.Contains(list, `"skill://guides/forms/SKILL.md"`) || strings.Contains(list, "image.png") {
		t.Errorf("listed are %s", list)
	}
}
