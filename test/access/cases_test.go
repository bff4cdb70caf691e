package access

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/identity"
)

// TestCase65 takes the issuer away: known tokens stay valid at every door, and unknown ones are
// unavailable, not bad. In services/edge/identity/oauth an hour passes.
func TestCase65(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.main.Token(resource, nil)
	for _, d := range doors {
		w.try(t, d, auth("Bearer "+token), good, "/anna")
	}
	for name, answer := range map[string]http.HandlerFunc{
		"is broken": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"hangs":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"sends us inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		},
		"answers 10 MB": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20)) },
	} {
		w.main.Answer(answer)
		w.easy.Answer(answer)
		for _, d := range doors {
			w.try(t, d, auth("Bearer "+token), good, "/anna")
			w.try(t, d, auth("Bearer "+w.main.Token(resource, nil)), good, "/anna")
			w.try(t, d, auth("Bearer "+w.easy.Token(resource, nil)), away, "")
		}
		t.Log("the issuer " + name)
	}
}

// TestCase66 calls what other scopes would allow, by a policy file.
func TestCase66(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "access.yaml")
	text := `
roles:
  caller: {allow: [tools/whoami]}
  writer: {allow: ["resources/*"]}
  admin: {allow: ["*"]}
oauth:
  - {issuer: "` + w.main.URL + `", audience: "` + resource + `", scopes: {"mcp:call": [caller], "mcp:write": [writer], "mcp:admin": [admin]}, ask: ["mcp:write"]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg edge.Config
	policy := edge.PolicyFlags{Access: file}
	closed, err := policy.OpenPolicy(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	closed, err = new(edge.IdentityFlags).OpenIdentity(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	w.auth = cfg.Authenticator.(*identity.Authenticator)
	w.policy = cfg.Access.(*access.Live)
	w.serve(t)
	lacking := outcome{"scope", 403, `Bearer error="insufficient_scope", scope="mcp:call", ` + where}
	for name, c := range map[string]struct {
		scope any
		want  outcome
	}{
		"enough": {"mcp:call", good}, "more": {"mcp:admin", good}, "both": {"mcp:call mcp:admin", good}, "among others": {"openid mcp:call x", good}, "a list": {[]string{"mcp:call"}, good},
		"another": {"mcp:write", lacking}, "none": {"", lacking}, "left out": {nil, lacking}, "capitals": {"MCP:call", lacking}, "its beginning": {"mcp", lacking}, "with a star": {"mcp:*", lacking}, "commas": {"mcp:call,mcp:admin", lacking},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := w.main.Token(resource, claims{"scope": c.scope})
			for _, d := range doors {
				if d.says {
					w.try(t, d, auth("Bearer "+token), c.want, "/anna")
				}
			}
		})
	}
	t.Run("expired and for nothing", func(t *testing.T) {
		late := outcome{"", 401, strings.Replace(wrong.challenge, "mcp:call", "mcp:write", 1)}
		for _, d := range doors {
			w.try(t, d, auth("Bearer "+w.main.Token(resource, claims{"exp": in(-time.Hour), "scope": nil})), late, "")
		}
	})
}

// TestCase70 sends what only those inside may say.
func TestCase70(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.main.Token(resource, nil)
	for _, d := range doors {
		h := auth("Bearer " + token)
		for _, name := range []string{
			"X-Forwarded-User", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Tenant", "X-Principal", "X-Roles", "Nats-Request-Info", "Nats-Msg-Id", "Busbar-Principal",
			"Busbar-Tenant", "Busbar-Delegation", "X-Custom-Auth", "X-Client-Cert", "X-Ssl-Client-S-Dn", "X-Authenticated-Userid", "Remote-User",
		} {
			h[name] = []string{"root"}
		}
		w.try(t, d, h, good, "/anna")
		h.Del("Authorization")
		w.try(t, d, h, none, "")
	}
}
