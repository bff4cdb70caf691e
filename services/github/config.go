package github

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
)

// DefaultURL is the API of github.com.
const DefaultURL = "https://api.github.com"

// Env says where GitHub is and as whom to read it.
type Env struct {
	service.Env
	// URL is the base of the REST API; empty is DefaultURL. It is https, except
	// on loopback, and has no user, query or fragment. A GitHub Enterprise
	// server's ends in /api/v3.
	URL string `name:"url" env:"BUSBAR_GITHUB_URL" placeholder:"URL" help:"Base of the API, https except on loopback. Default https://api.github.com."`
	// Token is what all calls use; empty reads as nobody, with GitHub's small
	// limits and without code search. A GITHUB_TOKEN that is there for other
	// programs is not used: whoever may call the tools would see what it sees.
	Token string `env:"BUSBAR_GITHUB_TOKEN" secret:"" hidden:"" placeholder:"TOKEN" help:"Token for GitHub: whoever may call the tools sees what it sees."`
	// Tokens, when set, replaces Token by a choice for each call.
	Tokens TokenSource `kong:"-"`
	// Transport makes the requests; nil is one that knows the environment's
	// proxies. It must not follow redirects.
	Transport http.RoundTripper `kong:"-"`
}

// TokenSource chooses the token of a call by who calls. It is asked for every
// call, so it keeps what is expensive to get. The identity is the edge's word;
// a client's own credentials never get here.
type TokenSource interface {
	// Token returns the token for a principal of a tenant; empty reads as
	// nobody. An error fails the call; it is logged, so it must hold no secret.
	Token(ctx context.Context, principal, tenant string) (string, error)
}

// fixed is the TokenSource of one token.
type fixed string

func (f fixed) Token(context.Context, string, string) (string, error) { return string(f), nil }

// base checks the URL. Its errors name the setting and not the value, which may
// hold a password.
func (e Env) base() (*url.URL, error) {
	raw := e.URL
	if raw == "" {
		raw = DefaultURL
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, errors.New("BUSBAR_GITHUB_URL is not a URL such as https://api.github.com")
	case u.User != nil:
		return nil, errors.New("BUSBAR_GITHUB_URL must have no user or password in it; set BUSBAR_GITHUB_TOKEN")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return u, nil
	}
	return nil, errors.New("BUSBAR_GITHUB_URL must be https: a token would travel in the open")
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

var errToken = errors.New("the GitHub token has characters that no token has; see BUSBAR_GITHUB_TOKEN")

// checkToken refuses what would break out of a header.
func checkToken(token string) error {
	if len(token) > 1024 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errToken
	}
	return nil
}
