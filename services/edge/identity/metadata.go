package identity

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/problem"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

// Issuer is an authorization server whose access tokens are taken, and what they
// are good for.
type Issuer struct {
	oauth.Issuer
	// Resource is the URL of the MCP endpoint, as clients know it; by default the
	// first audience that is an http or https URL. All issuers have the same.
	Resource string
	// ScopeRoles are the roles that a scope of a token brings.
	ScopeRoles map[string][]string
	// First are the scopes that a client is asked to begin with; empty for all of
	// ScopeRoles. It is asked for others when a call needs them.
	First []string
}

func (i *Issuer) first() []string {
	if len(i.First) > 0 {
		return i.First
	}
	return i.scopes()
}

// scopes are all that mean something here. offline_access is between client and
// issuer.
func (i *Issuer) scopes() []string {
	all := slices.Clone(i.First)
	for s := range i.ScopeRoles {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return s == "offline_access" })
	slices.Sort(all)
	return all
}

func (i *Issuer) resource() string {
	if i.Resource != "" {
		return i.Resource
	}
	for _, a := range i.Audience {
		if u, err := url.Parse(a); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
			return a
		}
	}
	return ""
}

func resourceOf(issuers []Issuer) string {
	if len(issuers) == 0 {
		return ""
	}
	return issuers[0].resource()
}

// MetadataPath is where the metadata of the server as a resource is: there, and
// with the path of the MCP endpoint behind it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the document of RFC 9728; nil without issuers.
func metadata(issuers []Issuer) ([]byte, error) {
	if len(issuers) == 0 {
		return nil, nil
	}
	resource := resourceOf(issuers)
	if resource == "" {
		return nil, fmt.Errorf("issuer %s: name the resource, the URL of the MCP endpoint as clients know it, since no audience is one", issuers[0].URL)
	}
	var servers, scopes []string
	proofs := true
	for i := range issuers {
		one := &issuers[i]
		if r := one.resource(); r != "" && r != resource {
			return nil, fmt.Errorf("issuers give tokens for %s and for %s; there is one resource, and the first audience names it", resource, r)
		}
		servers, scopes = append(servers, one.URL), append(scopes, one.scopes()...)
		proofs = proofs && one.RequireDPoP
	}
	for _, s := range scopes {
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			return nil, fmt.Errorf("%q is no scope", s)
		}
	}
	slices.Sort(scopes)
	return json.Marshal(struct {
		Resource   string   `json:"resource"`
		Servers    []string `json:"authorization_servers"`
		Scopes     []string `json:"scopes_supported,omitempty"`
		Methods    []string `json:"bearer_methods_supported"`
		Name       string   `json:"resource_name"`
		Proofs     []string `json:"dpop_signing_alg_values_supported"`
		NeedProofs bool     `json:"dpop_bound_access_tokens_required,omitzero"`
	}{resource, servers, slices.Compact(scopes), []string{"header"}, "Busbar", oauth.Algorithms, proofs})
}

// ServeHTTP serves the metadata, to anybody, web pages included.
func (a *Authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := a.now.Load()
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch {
	case s.metadata == nil || !s.serves(r.URL.Path):
		problem.Write(w, problem.NotFound(nextMetadata))
	case r.Method == http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		const allow = "GET, HEAD, OPTIONS"
		h.Set("Allow", allow)
		problem.Write(w, problem.NotAllowed(r.Method, allow, nextMetadata))
	default:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(s.metadata)
	}
}

// nextMetadata is the way on for a client that asks for metadata where none is served.
const nextMetadata = "GET " + MetadataPath + " has the metadata, where this edge takes tokens of an authorization server"

// serves reports whether the metadata is at a path: the well-known one, or that
// with the path of the resource behind it.
func (s *state) serves(path string) bool {
	rest, ok := strings.CutPrefix(path, MetadataPath)
	u, err := url.Parse(resourceOf(s.Issuers))
	return ok && err == nil && (rest == "" || rest == "/" || rest == strings.TrimSuffix(u.Path, "/"))
}

// OAuth reports whether access tokens are taken.
func (a *Authenticator) OAuth() bool { return a.now.Load().metadata != nil }

// StandIn has one authorization server in place of all. The scopes of those it stands in
// for bring the same roles.
func (s *Settings) StandIn(server oauth.Issuer) {
	all := Issuer{Issuer: server, ScopeRoles: map[string][]string{}}
	for _, i := range s.Issuers {
		for scope, roles := range i.ScopeRoles {
			all.ScopeRoles[scope] = append(all.ScopeRoles[scope], roles...)
		}
		all.First = append(all.First, i.First...)
	}
	s.Issuers = []Issuer{all}
}

// Scopes are all that mean something here, sorted.
func (s *Settings) Scopes() []string {
	var all []string
	for i := range s.Issuers {
		all = append(all, s.Issuers[i].scopes()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
