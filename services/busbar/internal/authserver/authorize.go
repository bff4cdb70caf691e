package authserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// loginTime is how long a login page stays valid.
const loginTime = 10 * time.Minute

// login is a client's checked request. The login page carries it, sealed, so that unanswered pages cost no
// memory.
type login struct {
	ClientID, Name, Redirect, State, Challenge string
	Scopes                                     []string
	Refresh                                    bool
	Expires                                    int64
}

// authorize shows the login page for a valid request. Errors are shown to the person, unless the client is
// on this machine: anybody may register any redirect URI, and must not be able to send people there
// without a click (RFC 9700, section 4.11.2).
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q, f := single(r.URL.Query())
	if f != nil {
		s.wrong(w, http.StatusBadRequest, f)
		return
	}
	id, redirect := q.Get("client_id"), q.Get("redirect_uri")
	c, f := s.client(r, id)
	if f == nil && (redirect == "" || !c.redirects(redirect)) {
		f = fail("invalid_request", "redirect_uri is not one of the client's; it must be the same text, except for the port on loopback")
	}
	if f != nil {
		s.wrong(w, http.StatusBadRequest, f)
		return
	}
	l := login{ClientID: id, Name: c.Name, Redirect: redirect, State: q.Get("state"), Challenge: q.Get("code_challenge"), Refresh: c.refreshes()}
	if l.Scopes, f = s.asked(q); f != nil {
		if withoutPort(redirect) == "" {
			s.wrong(w, http.StatusBadRequest, f)
			return
		}
		s.back(w, &l, url.Values{"error": {f.Code}, "error_description": {f.Text}})
		return
	}
	l.Expires = s.now().Add(loginTime).Unix()
	s.ask(w, r, &l)
}

// asked checks a client's request, and returns the scopes.
func (s *Server) asked(q url.Values) ([]string, *failure) {
	switch {
	case q.Get("response_type") != "code":
		return nil, fail("unsupported_response_type", "response_type must be code")
	case q.Has("response_mode") && q.Get("response_mode") != "query":
		return nil, fail("invalid_request", "response_mode must be query")
	case q.Has("request"):
		return nil, fail("request_not_supported", "")
	case q.Has("request_uri"):
		return nil, fail("request_uri_not_supported", "")
	case q.Get("prompt") == "none":
		return nil, fail("login_required", "the user must log in")
	case q.Get("code_challenge") == "":
		return nil, fail("invalid_request", "code_challenge is missing: PKCE is required")
	case q.Get("code_challenge_method") != "S256":
		return nil, fail("invalid_request", "code_challenge_method must be S256")
	case !challenge(q.Get("code_challenge")):
		return nil, fail("invalid_request", "code_challenge must be the SHA-256 of the verifier in base64url, 43 characters")
	}
	if f := s.target(q); f != nil {
		return nil, f
	}
	return s.scopes(q)
}

// scopes returns the known requested scopes; all scopes if none is requested.
func (s *Server) scopes(q url.Values) ([]string, *failure) {
	known := s.cfg.Scopes()
	if !q.Has("scope") {
		return known, nil
	}
	wanted := strings.Fields(q.Get("scope"))
	var scopes []string
	for _, scope := range known {
		if slices.Contains(wanted, scope) {
			scopes = append(scopes, scope)
		}
	}
	others := slices.DeleteFunc(wanted, func(scope string) bool { return scope == offline })
	if len(others) > 0 && len(scopes) == 0 {
		return nil, fail("invalid_scope", "none of these scopes is known; use some of "+strings.Join(known, " "))
	}
	return scopes, nil
}

// target checks the resource that tokens are requested for (RFC 8707). There is only one, so older clients
// need not name it.
func (s *Server) target(q url.Values) *failure {
	if q.Has("resource") && !sameURL(q.Get("resource"), s.cfg.Resource) {
		return fail("invalid_target", "tokens are only for "+s.cfg.Resource)
	}
	return nil
}

// sameURL reports whether two URLs are equal, except for the case of scheme and host.
func sameURL(a, b string) bool {
	fold := func(s string) string {
		scheme, rest, _ := strings.Cut(s, "://")
		host, path, _ := strings.Cut(rest, "/")
		return strings.ToLower(scheme) + "://" + strings.ToLower(host) + "/" + path
	}
	return fold(a) == fold(b)
}

// challenge reports whether s is a SHA-256 in base64url.
func challenge(s string) bool {
	return len(s) == 43 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// single refuses a repeated parameter: different readers may use different values.
func single(q url.Values) (url.Values, *failure) {
	for name, values := range q {
		if len(values) > 1 {
			return nil, fail("invalid_request", "a parameter appears twice: "+name)
		}
	}
	return q, nil
}

// decide handles the answer of the login page.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.wrong(w, http.StatusBadRequest, fail("invalid_request", "the body must be a form of at most 64 KiB"))
		return
	}
	var l login
	cookie, err := r.Cookie(s.cookie())
	if err != nil || foreign(r, s.issuer) || s.key.open("login "+cookie.Value, r.PostForm.Get("login"), &l) != nil {
		s.wrong(w, http.StatusForbidden, fail("access_denied", "this answer does not belong to the login page in this browser; go back to the client and log in again"))
		return
	}
	if s.now().Unix() > l.Expires {
		s.wrong(w, http.StatusBadRequest, fail("access_denied", "the login page was open for more than 10 minutes; go back to the client and log in again"))
		return
	}
	if r.PostForm.Get("answer") != "allow" {
		s.back(w, &l, url.Values{"error": {"access_denied"}, "error_description": {"the user said no"}})
		return
	}
	user := r.PostForm.Get("user")
	if !s.knows(user) {
		s.wrong(w, http.StatusBadRequest, fail("access_denied", "choose a user"))
		return
	}
	scopes := slices.DeleteFunc(l.Scopes, func(scope string) bool { return !slices.Contains(r.PostForm["scope"], scope) })
	c := s.grants.issue(&code{
		grant:    grant{User: user, Client: l.ClientID, Resource: s.cfg.Resource, Scopes: scopes},
		redirect: l.Redirect, challenge: l.Challenge, refresh: l.Refresh,
	}, s.now())
	s.back(w, &l, url.Values{"code": {c}})
}

func (s *Server) knows(user string) bool {
	return slices.ContainsFunc(s.cfg.Users(), func(u User) bool { return u.Name == user })
}

// foreign reports whether the browser says that the form comes from another site's page.
func foreign(r *http.Request, own string) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	return origin != "" && origin != own || site != "" && site != "same-origin"
}

// back sends the browser back to the client, and names the issuer (RFC 9207).
func (s *Server) back(w http.ResponseWriter, l *login, answer url.Values) {
	answer.Set("iss", s.issuer)
	if l.State != "" {
		answer.Set("state", l.State)
	}
	to, query := l.Redirect, answer.Encode()
	if strings.Contains(to, "?") {
		to += "&" + query
	} else {
		to += "?" + query
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
