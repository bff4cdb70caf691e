package tenants

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
)

// withWorkspace adds the workspace, with a root of everybody and one of each tenant,
// and returns the directory that all are in.
func (w *world) withWorkspace(t *testing.T) (top string) {
	t.Helper()
	top = t.TempDir()
	for path, text := range map[string]string{"all/readme": "OF ALL", "acme/plan": "ACME ONLY", "beta/plan": "BETA ONLY"} {
		if err := os.MkdirAll(filepath.Join(top, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servicetest.Join(t, bustest.Connect(t, w.nats), servicetest.Build(t, workspace.New, workspace.Env{Env: service.Env{Log: bustest.Logger(t)}, Roots: []string{
		"shared=" + filepath.Join(top, "all"), "acme/acmeroot=" + filepath.Join(top, "acme"), "beta/betaroot=" + filepath.Join(top, "beta"),
	}}))
	bustest.Eventually(t, "the workspace is there", func() bool {
		return w.tool(t, ada, "filesystem_list", "{}").status == http.StatusOK && readers["gRPC"](t, w, ada, "workspace://shared/readme").status == http.StatusOK
	})
	return top
}

// files are the ways to a file, by its path in the workspace: two tools over REST, and one at every
// door.
func files() map[string]func(t *testing.T, w *world, token, path string) answer {
	all := map[string]func(t *testing.T, w *world, token, path string) answer{
		"filesystem_search": func(t *testing.T, w *world, token, path string) answer {
			return w.tool(t, token, "filesystem_search", `{"path":"`+path+`","query":"ONLY"}`)
		},
		"git_status": func(t *testing.T, w *world, token, path string) answer {
			return w.tool(t, token, "git_status", `{"path":"`+path+`"}`)
		},
	}
	for way, door := range deskDoors {
		all[way] = func(t *testing.T, w *world, token, path string) answer {
			return door.call(t, w, token, "", "filesystem_read", `{"path":"`+path+`"}`)
		}
	}
	return all
}

// A root of a tenant does not exist for others, at any door: not in reads, lists, completions or
// notifications.
func TestWorkspaceOfATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := w.withWorkspace(t)
	for way, try := range files() {
		read := func(t *testing.T, w *world, token, path string) answer {
			t.Helper()
			return heard(t, func() answer { return try(t, w, token, path) })
		}
		for _, token := range []string{bob, nobody} {
			is, isNot := read(t, w, token, "acmeroot/plan"), read(t, w, token, "noneroot/plan")
			if is.status != isNot.status || strings.ReplaceAll(is.body, "acmeroot", "noneroot") != isNot.body || is.says("ONLY") || is.says(top) {
				t.Errorf("%s by %q: of what is there %d %s\nof what never was %d %s", way, token, is.status, is.body, isNot.status, isNot.body)
			}
		}
		if a := read(t, w, amy, "acmeroot/plan"); way != "git_status" && !a.says("ACME ONLY") {
			t.Errorf("%s by one of the tenant: %d %s", way, a.status, a.body)
		}
	}
	for way, read := range readers {
		if strings.Contains(way, "delete") || strings.Contains(way, "resource") {
			continue // of the stored ones
		}
		for _, token := range []string{bob, nobody} {
			for _, path := range []string{"plan", "", "none"} {
				is, isNot := read(t, w, token, "workspace://acmeroot/"+path), read(t, w, token, "workspace://noneroot/"+path)
				if is.status != isNot.status || strings.ReplaceAll(is.body, "acmeroot", "noneroot") != isNot.body || is.says("ONLY") {
					t.Errorf("%s by %q: of what is there %d %s\nof what never was %d %s", way, token, is.status, is.body, isNot.status, isNot.body)
				}
			}
		}
		if a := read(t, w, amy, "workspace://acmeroot/plan"); !a.says("ACME ONLY") {
			t.Errorf("%s by one of the tenant: %d %s", way, a.status, a.body)
		}
	}
	complete := func(token, variable, typed, root string) string {
		return w.modern(t, token, "completion/complete", "", `"ref":{"type":"ref/resource","uri":"workspace://{root}/{+path}"},"argument":{"name":"`+variable+`","value":"`+typed+`"},"context":{"arguments":{"root":"`+root+`"}}`).body
	}
	for token, sees := range map[string]bool{ada: true, bob: false, ":operator": false} {
		all := w.tool(t, token, "filesystem_list", "{}").body + w.tool(t, token, "filesystem_read", `{"path":"x"}`).body + complete(token, "root", "", "") + complete(token, "path", "pl", "acmeroot")
		if strings.Contains(all, "acmeroot") != sees || strings.Contains(all, `"plan"`) != sees || !strings.Contains(all, "shared") {
			t.Errorf("%s sees %s", token, all)
		}
	}
	listen := func(token string) *stream {
		s := w.stream(t, 1, token, "POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["workspace://acmeroot/plan","workspace://shared/readme"]},`+meta+`}}`,
			mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "subscriptions/listen")
		s.until("acknowledged")
		return s
	}
	hers, theirs := listen(amy), listen(bob)
	write := func(path, text string) {
		if err := os.WriteFile(filepath.Join(top, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("acme/plan", "ACME ONLY 2")
	hers.until("workspace://acmeroot/plan")
	write("all/readme", "OF ALL 2")
	if heard := theirs.until("workspace://shared/readme"); strings.Contains(heard, "acmeroot") {
		t.Errorf("another tenant hears %s", heard)
	}
}

// A change with an idempotency key is made once, even after a person has agreed to it, and a key
// belongs to one change.
func TestKeysOfTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := w.withWorkspace(t)
	write := func(token, key, text string) answer {
		return w.tool(t, token, "filesystem_write", `{"path":"shared/new","text":"`+text+`","ifMatch":"absent"}`, "Idempotency-Key", key)
	}
	held := write(ada, "k", "one")
	id := held.member("data.approval")
	if id == "" {
		t.Fatalf("%d %s", held.status, held.body)
	}
	if a := w.do(t, ada, "POST", "/approvals/"+id, `{"approve":true}`); a.status != http.StatusOK || !a.says(`"created":true`) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := os.Remove(filepath.Join(top, "all", "new")); err != nil {
		t.Fatal(err)
	}
	if a := write(ada, "k", "one"); !a.says(`"created":true`) || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated: %d %v %s", a.status, a.header, a.body)
	}
	if a := write(ada, "k", "two"); a.status < 400 {
		t.Errorf("the key with other arguments: %d %s", a.status, a.body)
	}
	if a := write(bob, "k", "one"); a.member("data.approval") == "" || a.member("data.approval") == id {
		t.Errorf("another's key: %d %s", a.status, a.body)
	}
	if _, err := os.Stat(filepath.Join(top, "all", "new")); err == nil {
		t.Error("it was written again")
	}
}
