package authserver

import (
	"crypto/rand"
	"crypto/sha256"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// tokenTime is the lifetime of an access token. It is short, because a token cannot be revoked.
const tokenTime = 5 * time.Minute

// token issues tokens for codes, for refresh tokens, and to programs.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil {
		err = r.ParseForm()
	}
	switch {
	case err != nil || kind != "application/x-www-form-urlencoded":
		fail("invalid_request", "the body must be a form, application/x-www-form-urlencoded, of at most 64 KiB").write(w)
		return
	case r.URL.RawQuery != "":
		fail("invalid_request", "parameters must be in the body, not in the query").write(w)
		return
	case r.PostForm.Get("grant_type") != ownGrant && (r.Header.Get("Authorization") != "" || r.PostForm.Has("client_secret") || r.PostForm.Has("client_assertion")):
		fail("invalid_client", "clients for people have no secret here; use token_endpoint_auth_method none").write(w)
		return
	}
	q, f := single(r.PostForm)
	if f == nil {
		f = s.target(q)
	}
	if f != nil {
		f.write(w)
		return
	}
	var g grant
	var refresh string
	switch q.Get("grant_type") {
	case "authorization_code":
		g, refresh, f = s.exchange(q)
	case "refresh_token":
		g, refresh, f = s.refresh(q)
	case ownGrant:
		g, f = s.own(r, q)
	default:
		f = fail("unsupported_grant_type", "grant_type must be authorization_code, refresh_token or "+ownGrant)
	}
	if f != nil {
		f.write(w)
		return
	}
	s.issue(w, g, refresh)
}

// exchange exchanges a code.
func (s *Server) exchange(q url.Values) (grant, string, *failure) {
	c, ok := s.grants.take(q.Get("code"), s.now())
	switch {
	case !ok:
		return grant{}, "", fail("invalid_grant", "the code is unknown, expired or was used before; log in again")
	case c.Client != q.Get("client_id"):
		return grant{}, "", fail("invalid_grant", "the code belongs to another client")
	case c.redirect != q.Get("redirect_uri"):
		return grant{}, "", fail("invalid_grant", "redirect_uri is not the one of the login")
	case !verified(c.challenge, q.Get("code_verifier")):
		return grant{}, "", fail("invalid_grant", "code_verifier does not match the login")
	case !s.knows(c.User):
		return grant{}, "", fail("invalid_grant", "the user no longer exists")
	case !c.refresh:
		return c.grant, "", nil
	}
	token := s.grants.begin(c, s.now())
	if token == "" {
		return grant{}, "", fail("invalid_grant", "the code was used twice; log in again")
	}
	return c.grant, token, nil
}

// verified reports whether a challenge belongs to a verifier (RFC 7636).
func verified(challenge, verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return len(verifier) >= 43 && len(verifier) <= 128 && base64url(sum[:]) == challenge
}

// refresh replaces a refresh token. The access token may have fewer scopes.
func (s *Server) refresh(q url.Values) (grant, string, *failure) {
	var fewer []string
	g, token, f := s.grants.renew(q.Get("refresh_token"), q.Get("client_id"), s.now(), func(g grant) *failure {
		if !s.knows(g.User) {
			return fail("invalid_grant", "the user no longer exists")
		}
		for _, scope := range strings.Fields(q.Get("scope")) {
			switch {
			case slices.Contains(g.Scopes, scope):
				fewer = append(fewer, scope)
			case scope != offline:
				return fail("invalid_scope", "the login had fewer scopes; log in again for more")
			}
		}
		return nil
	})
	if q.Has("scope") {
		g.Scopes = fewer
	}
	return g, token, f
}

// issue answers with an access token (RFC 9068).
func (s *Server) issue(w http.ResponseWriter, g grant, refresh string) {
	now := s.now()
	scope := strings.Join(g.Scopes, " ")
	token, err := s.key.sign(struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		Client   string `json:"client_id"`
		Scope    string `json:"scope,omitzero"`
		ID       string `json:"jti"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}{s.issuer, g.User, g.Resource, g.Client, scope, rand.Text(), now.Unix(), now.Add(tokenTime).Unix()})
	if err != nil {
		s.cfg.Logger.Error("sign a token", "error", err)
		fail("server_error", "").write(w)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	answer(w, http.StatusOK, struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Seconds int    `json:"expires_in"`
		Scope   string `json:"scope"`
		Refresh string `json:"refresh_token,omitzero"`
	}{token, "Bearer", int(tokenTime / time.Second), scope, refresh})
}
