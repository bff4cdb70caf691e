package github

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/service"
)

// DefaultURL is the API of github.com.
const DefaultURL = "https://api.github.com"

// Env holds the settings of the service: GitHub's address and the token.
type Env struct {
	service.Env
	// URL is the base of the REST API; empty means DefaultURL. It must be https, except on
	// loopback, without user, query or fragment. For a GitHub Enterprise server it ends in
	// /api/v3.
	URL string `name:"url" env:"BUSBAR_GITHUB_URL" placeholder:"URL" help:"Base URL of the API; https, except on loopback (default: https://api.github.com)."`
	// Token is used for all calls. Without it, calls are anonymous, with GitHub's low limits
	// and without code search. A GITHUB_TOKEN set for other programs is not used: every
	// caller of the tools would see what that token sees.
	Token string `env:"BUSBAR_GITHUB_TOKEN" secret:"" hidden:"" placeholder:"TOKEN" help:"Token for GitHub. Every caller of the tools can read what this token can read."`
	// Tokens, if set, chooses a token for each call instead of Token.
	Tokens TokenSource `kong:"-"`
	// Transport makes the requests; nil means one that uses the environment's proxies. It
	// must not follow redirects.
	Transport http.RoundTripper `kong:"-"`
}

// TokenSource chooses the token of a call by its caller. It is called for every call, so it should cache
// whatever is expensive to get. The identity comes from the edge; a client's own credentials never get
// here.
type TokenSource interface {
	// Token returns the token for a principal of a tenant; empty means anonymous. An error
	// fails the call; it is logged, so it must not contain a secret.
	Token(ctx context.Context, principal, tenant string) (string, error)
}

// fixed is the TokenSource of one token.
type fixed string

func (f fixed) Token(context.Context, string, string) (string, error) { return string(f), nil }

// base checks the URL. Its errors name the setting but not the value, which may contain a password.
func (e Env) base() (*url.URL, error) {
	raw := e.URL
	if raw == "" {
		raw = DefaultURL
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, errors.New("BUSBAR_GITHUB_URL is not a valid URL; set one such as https://api.github.com")
	case u.User != nil:
		return nil, errors.New("BUSBAR_GITHUB_URL contains a user or password; remove it and set BUSBAR_GITHUB_TOKEN")
	case u.Scheme == "https", u.Scheme == "http" && listener.IsLoopbackHost(u.Hostname()):
		return u, nil
	}
	return nil, errors.New("BUSBAR_GITHUB_URL is not https, so the token would be sent unencrypted; use https")
}

var errToken = errors.New("the GitHub token contains characters that are not valid in a token; check BUSBAR_GITHUB_TOKEN")

// checkToken refuses a token that would break out of a header.
func checkToken(token string) error {
	if len(token) > 1024 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errToken
	}
	return nil
}
