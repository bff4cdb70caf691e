package authserver

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
)

// client is a client's own description, from its registration or its document. Unknown members are
// ignored, as RFC 7591 demands.
type client struct {
	Name          string   `json:"client_name,omitzero"`
	RedirectURIs  []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types,omitzero"`
	ResponseTypes []string `json:"response_types,omitzero"`
	AuthMethod    string   `json:"token_endpoint_auth_method,omitzero"`
}

// Limits of a client's description, in bytes, except for the number of redirect URIs. A client ID is part
// of a login's query.
const (
	maxName         = 200
	maxRedirects    = 10
	maxRedirect     = 512
	maxAllRedirects = 2 << 10
)

// check refuses an invalid description.
func (c *client) check() *failure {
	if len(c.RedirectURIs) == 0 || len(c.RedirectURIs) > maxRedirects {
		return fail("invalid_redirect_uri", "redirect_uris must have 1 to 10 members")
	}
	all := 0
	for _, u := range c.RedirectURIs {
		if all += len(u); len(u) > maxRedirect || all > maxAllRedirects || !redirectable(u) {
			return fail("invalid_redirect_uri", "a redirect URI must be https, http on loopback, or have a private scheme with a dot, such as com.example.app; it must have no user and no fragment, a port from 1 to 65535, and at most 512 bytes")
		}
	}
	switch {
	case len(c.Name) > maxName || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fail("invalid_client_metadata", "client_name must have at most 200 bytes, all printable")
	case len(c.GrantTypes) > 0 && !slices.Contains(c.GrantTypes, "authorization_code"):
		return fail("invalid_client_metadata", "grant_types must contain authorization_code")
	case len(c.ResponseTypes) > 0 && !slices.Contains(c.ResponseTypes, "code"):
		return fail("invalid_client_metadata", "response_types must contain code")
	}
	return nil
}

// refreshes reports whether the client uses refresh tokens.
func (c *client) refreshes() bool { return slices.Contains(c.GrantTypes, "refresh_token") }

// registeredSchemes are private schemes without a dot that editors have registered their callbacks under.
var registeredSchemes = []string{"cursor", "vscode", "vscode-insiders"}

// redirectable reports whether people may be sent to a redirect URI: https, http on loopback, or a private scheme
// of a program, which contains a dot (RFC 8252, section 7.1), so that it is not one that a browser or an
// operating system acts on itself.
func redirectable(s string) bool {
	u, err := url.Parse(s)
	if err != nil || strings.Contains(s, "#") || u.User != nil || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return false
	}
	if n, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16); err != nil || n == 0 || strings.HasSuffix(u.Host, ":") {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Hostname() != ""
	case "http":
		return loopback(u.Hostname())
	}
	return private(u.Scheme) || slices.Contains(registeredSchemes, u.Scheme)
}

// private reports whether a scheme is a domain name in reverse order: two labels or more.
func private(scheme string) bool {
	labels := strings.Split(scheme, ".")
	return len(labels) > 1 && !slices.Contains(labels, "")
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// redirects reports whether a URI is one of the client's: the same text. A program on this machine may use
// any port (RFC 8252, section 7.3).
func (c *client) redirects(to string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(own string) bool {
		return to == own || redirectable(to) && withoutPort(to) != "" && withoutPort(to) == withoutPort(own)
	})
}

// withoutPort removes the port of a redirect URI with http on loopback.
func withoutPort(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		return ""
	}
	if u.Port() == "" {
		return s
	}
	return strings.Replace(s, "//"+u.Host, "//"+strings.TrimSuffix(u.Host, ":"+u.Port()), 1)
}

// whose describes the target of a redirect for people.
func whose(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil:
		return ""
	case u.Scheme != "https" && u.Scheme != "http":
		return "the program on this machine that opens " + u.Scheme + ": links"
	case loopback(u.Hostname()):
		return "a program on this machine, " + u.Host
	}
	return u.Host
}

// registered is the purpose under which a registered client's ID is sealed.
const registered = "client"

// register registers a client (RFC 7591). Its ID is its description, sealed, so the server stores nothing:
// registrations cost no memory and survive a restart.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var c client
	if err := json.UnmarshalRead(r.Body, &c); err != nil {
		fail("invalid_client_metadata", "the body is not a JSON object of client metadata, or is larger than 64 KiB").write(w)
		return
	}
	if c.isProgram() {
		s.registerProgram(w, r, &c)
		return
	}
	if len(c.GrantTypes) == 0 {
		c.GrantTypes = []string{"authorization_code"}
	}
	if f := c.check(); f != nil {
		f.write(w)
		return
	}
	// The server decides: clients for people have two grants and no secret.
	c.GrantTypes = slices.DeleteFunc(c.GrantTypes, func(g string) bool { return g != "authorization_code" && g != "refresh_token" })
	slices.Sort(c.GrantTypes)
	c.GrantTypes = slices.Compact(c.GrantTypes)
	c.ResponseTypes, c.AuthMethod = []string{"code"}, "none"
	id, err := s.key.seal(registered, c)
	if err != nil {
		fail("server_error", "").write(w)
		return
	}
	answer(w, http.StatusCreated, struct {
		ID     string `json:"client_id"`
		Issued int64  `json:"client_id_issued_at"`
		client `json:",inline"`
	}{id, s.now().Unix(), c})
}

// client finds the client of an ID: a URL is the place of its document, any other ID was issued here.
func (s *Server) client(r *http.Request, id string) (*client, *failure) {
	if strings.HasPrefix(id, "https://") || strings.HasPrefix(id, "http://") {
		return s.docs.read(r.Context(), id)
	}
	var c client
	if id == "" || s.key.open(registered, id, &c) != nil {
		return nil, fail("invalid_client", "client_id is neither the URL of a client's metadata document nor registered here; register at "+registerPath)
	}
	return &c, nil
}
