package authserver

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
)

// ownGrant is the grant for a program's own tokens, without a person.
const ownGrant = "client_credentials"

// How a program sends its secret.
const (
	secretBasic = "client_secret_basic"
	secretPost  = "client_secret_post"
)

// isProgram reports whether a client wants tokens only for itself.
func (c *client) isProgram() bool { return slices.Equal(c.GrantTypes, []string{ownGrant}) }

// registerProgram registers a program as one of the users. Its ID is the user's name, so its tokens
// contain the name twice; by that an edge distinguishes programs from people. The secret is derived from
// the name and the server's key, so nothing is stored.
func (s *Server) registerProgram(w http.ResponseWriter, r *http.Request, c *client) {
	switch {
	case page(r):
		fail("access_denied", "a web page cannot be a program; "+ownGrant+" is only for programs outside of a browser").write(w)
		return
	case !s.knows(c.Name):
		fail("invalid_client_metadata", "client_name of a program must be one of the users; it becomes the principal of its tokens").write(w)
		return
	case c.AuthMethod != "" && c.AuthMethod != secretBasic && c.AuthMethod != secretPost:
		fail("invalid_client_metadata", "token_endpoint_auth_method of a program must be "+secretBasic+" or "+secretPost).write(w)
		return
	}
	if c.AuthMethod == "" {
		c.AuthMethod = secretBasic
	}
	answer(w, http.StatusCreated, struct {
		ID      string   `json:"client_id"`
		Secret  string   `json:"client_secret"`
		Expires int64    `json:"client_secret_expires_at"` // 0: never
		Issued  int64    `json:"client_id_issued_at"`
		Name    string   `json:"client_name"`
		Grants  []string `json:"grant_types"`
		Method  string   `json:"token_endpoint_auth_method"`
	}{c.Name, s.programSecret(c.Name), 0, s.now().Unix(), c.Name, c.GrantTypes, c.AuthMethod})
}

func (s *Server) programSecret(name string) string { return base64url(s.key.mac("program", name)) }

// page reports whether the browser says that a web page sends the request, without a click of the user.
func page(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// own returns a program's own grant.
func (s *Server) own(r *http.Request, q url.Values) (grant, *failure) {
	id, secret, basic := r.BasicAuth()
	if basic { // both are form-encoded there (RFC 6749, section 2.3.1)
		var wrongID, wrongSecret error
		id, wrongID = url.QueryUnescape(id)
		secret, wrongSecret = url.QueryUnescape(secret)
		if wrongID != nil || wrongSecret != nil || q.Has("client_secret") || q.Has("client_id") && q.Get("client_id") != id {
			return grant{}, fail("invalid_client", "the ID and secret of a program appear twice; send them either in the header Authorization or in the body")
		}
	} else {
		id, secret = q.Get("client_id"), q.Get("client_secret")
	}
	switch {
	case page(r) || !s.knows(id) || subtle.ConstantTimeCompare([]byte(secret), []byte(s.programSecret(id))) != 1:
		return grant{}, fail("invalid_client", "no program with this ID and secret is registered at "+registerPath+" with grant_types "+ownGrant)
	case q.Has("client_assertion"):
		return grant{}, fail("invalid_client", "assertions are not supported; a program must send its secret")
	}
	scopes, f := s.scopes(q)
	return grant{User: id, Client: id, Resource: s.cfg.Resource, Scopes: scopes}, f
}
