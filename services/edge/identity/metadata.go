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

// Issuer is an authorization server whose access tokens are accepted, with the roles that they bring.
type Issuer struct {
	oauth.Issuer
	// Resource is the URL of the MCP endpoint for clients; by default the
	// first audience that is an http or https URL. All issuers have the same.
	Resource string
	// ScopeRoles maps a token's scope to the roles that it brings.
	ScopeRoles map[string][]string
	// First are the scopes that a client should request first; empty means all of ScopeRoles.
	// The client requests others when a call needs them.
	First []string
}

func (i *Issuer) first() []string {
	if len(i.First) > 0 {
		return i.First
	}
	return i.scopes()
}

// scopes returns all scopes that have a meaning here. offline_access concerns only client and issuer.
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

// MetadataPath is the path of the resource metadata. It is also served with the path of the MCP endpoint
// after it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata returns the document of RFC 9728; nil without issuers.
func metadata(issuers []Issuer) ([]byte, error) {
	if len(issuers) == 0 {
		return nil, nil
	}
	resource := resourceOf(issuers)
	if resource == "" {
		return nil, fmt.Errorf("issuer %s: no audience is a URL; set resource to the URL of the MCP endpoint for clients", issuers[0].URL)
	}
	var servers, scopes []string
	proofs := true
	for i := range issuers {
		one := &issuers[i]
		if r := one.resource(); r != "" && r != resource {
			return nil, fmt.Errorf("issuers give tokens for two resources, %s and %s; only one is allowed: make the first audience, or resource, the same for all", resource, r)
		}
		servers, scopes = append(servers, one.URL), append(scopes, one.scopes()...)
		proofs = proofs && one.RequireDPoP
	}
	for _, s := range scopes {
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			return nil, fmt.Errorf("%q is not a valid scope", s)
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

// nextMetadata tells a client where the metadata is, if it asks at a wrong path.
const nextMetadata = "GET " + MetadataPath + " has the metadata, if this edge accepts tokens of an authorization server"

// serves reports whether a path is one of the metadata: the well-known one, or that with the path of the
// resource after it.
func (s *state) serves(path string) bool {
	rest, ok := strings.CutPrefix(path, MetadataPath)
	u, err := url.Parse(resourceOf(s.Issuers))
	return ok && err == nil && (rest == "" || rest == "/" || rest == strings.TrimSuffix(u.Path, "/"))
}

// OAuth reports whether access tokens are accepted.
func (a *Authenticator) OAuth() bool { return a.now.Load().metadata != nil }

// ReplaceIssuers replaces all authorization servers by one. The scopes of the replaced servers bring the same
// roles.
func (s *Settings) ReplaceIssuers(server oauth.Issuer) {
	all := Issuer{Issuer: server, ScopeRoles: map[string][]string{}}
	for _, i := range s.Issuers {
		for scope, roles := range i.ScopeRoles {
			all.ScopeRoles[scope] = append(all.ScopeRoles[scope], roles...)
		}
		all.First = append(all.First, i.First...)
	}
	s.Issuers = []Issuer{all}
}

// Scopes returns all scopes that have a meaning here, sorted.
func (s *Settings) Scopes() []string {
	var all []string
	for i := range s.Issuers {
		all = append(all, s.Issuers[i].scopes()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
