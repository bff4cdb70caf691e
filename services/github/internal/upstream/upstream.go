// Package upstream sends requests to GitHub as a well-behaved client: within its rate limits,
// conditionally, with limits on time and memory, and not at all while it is down. It reads only, with GET,
// and only from its one host. Start at Client.As.
package upstream

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// Client reads from one GitHub API, for any number of tokens.
type Client struct {
	base  *url.URL // its path ends in a slash
	agent string
	guest *fetch.Client
	// cache is always revalidated: "not modified" does not count against the rate limit.
	cache    *fetch.LRU[cacheKey, *fetch.Cached]
	accounts *fetch.LRU[identity, *account]
}

// identity is a token's digest: it owns responses and rate limits.
type identity [sha256.Size]byte

// cacheKey contains the identity, so one token's responses are never shown to another.
type cacheKey struct {
	identity identity
	url      string
	accept   string
}

// New returns a client of the API at base. agent is the User-Agent.
func New(base *url.URL, transport http.RoundTripper, agent string) *Client {
	u := *base
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return &Client{
		base: &u, agent: agent, guest: fetch.New(transport, limit.Guest),
		cache:    fetch.NewLRU[cacheKey, *fetch.Cached](limit.Cache),
		accounts: fetch.NewLRU[identity, *account](limit.Accounts),
	}
}

// As returns the API as seen with a token; empty means anonymous. It is cheap: call it
// for each call.
func (c *Client) As(token string) (*gh.Client, error) {
	id := identity(sha256.Sum256([]byte(token)))
	s := &session{Client: c, token: token, identity: id, account: c.accounts.GetOr(id, func() *account { return &account{} }, 1)}
	base := c.base.String()
	return gh.NewClient(
		gh.WithHTTPClient(&http.Client{Transport: s, CheckRedirect: checkRedirect}),
		gh.WithURLs(&base, nil),
		gh.WithUserAgent(c.agent),
		// This package keeps the limits, by token and across calls.
		gh.WithDisableRateLimitCheck(),
	)
}

// within reports whether u belongs to the API.
func (c *Client) within(u *url.URL) bool {
	return u.Scheme == c.base.Scheme && u.Host == c.base.Host && u.User == nil && strings.HasPrefix(u.EscapedPath(), c.base.EscapedPath())
}

// checkRedirect only counts redirects; the target is checked for every request.
func checkRedirect(_ *http.Request, via []*http.Request) error {
	if len(via) > limit.Redirects {
		return &fetch.Failure{Kind: Redirected}
	}
	return nil
}

// resource returns the rate limit that a request counts against.
func (c *Client) resource(u *url.URL) string {
	switch rest := strings.TrimPrefix(u.Path, c.base.Path); {
	case rest == "search/code":
		return "code_search"
	case strings.HasPrefix(rest, "search/"):
		return "search"
	}
	return "core"
}

// Kinds of failure of GitHub, in addition to the kinds of package fetch.
const (
	// RateLimited: the hourly limit, or the limit of searches a minute, is used up.
	RateLimited fetch.Kind = "rate limited"
	// Throttled: a secondary rate limit, too many requests at once.
	Throttled fetch.Kind = "throttled"
	// Redirected: redirected too often, or away from the API.
	Redirected fetch.Kind = "redirected"
)
