// Package upstream makes requests to GitHub as a good guest makes them: within
// its rate limits, conditionally, with bounded patience and memory, and not at
// all while it is down.
//
// It reads only, with GET, and only from the one host it is given.
package upstream

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"time"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// Client reads from one GitHub API, for any number of tokens.
type Client struct {
	base      *url.URL // its path ends in a slash
	agent     string
	transport http.RoundTripper
	circuit   circuit
	cache     *lru[cacheKey, *entry]
	accounts  *lru[identity, *account]
}

// identity is a token's digest: what responses and rate limits belong to.
type identity [sha256.Size]byte

// New makes a client of the API at base. agent is the User-Agent.
func New(base *url.URL, transport http.RoundTripper, agent string) *Client {
	u := *base
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return &Client{
		base: &u, agent: agent, transport: transport,
		cache:    newLRU[cacheKey, *entry](limit.Cache),
		accounts: newLRU[identity, *account](limit.Accounts),
	}
}

// DefaultTransport reaches GitHub directly, or through the proxy that the
// environment names.
func DefaultTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = limit.Header
	t.MaxIdleConnsPerHost = 16
	return t
}

// As returns the API as seen with a token; empty is nobody's. It costs next to
// nothing, so that one is made for each call.
func (c *Client) As(token string) (*gh.Client, error) {
	id := identity(sha256.Sum256([]byte(token)))
	s := &session{Client: c, token: token, identity: id, account: c.accounts.getOr(id, func() *account { return &account{} }, 1)}
	base := c.base.String()
	return gh.NewClient(
		gh.WithHTTPClient(&http.Client{Transport: s, CheckRedirect: checkRedirect}),
		gh.WithURLs(&base, nil),
		gh.WithUserAgent(c.agent),
		// Limits are kept here, by token and over calls.
		gh.WithDisableRateLimitCheck(),
	)
}

// within reports whether u belongs to the API.
func (c *Client) within(u *url.URL) bool {
	return u.Scheme == c.base.Scheme && u.Host == c.base.Host && u.User == nil && strings.HasPrefix(u.EscapedPath(), c.base.EscapedPath())
}

// checkRedirect only counts; where they lead is checked for every request.
func checkRedirect(_ *http.Request, via []*http.Request) error {
	if len(via) > limit.Redirects {
		return &Failure{Kind: Redirected}
	}
	return nil
}

// resource is the part of the rate limit that a request counts against.
func (c *Client) resource(u *url.URL) string {
	switch rest := strings.TrimPrefix(u.Path, c.base.Path); {
	case rest == "search/code":
		return "code_search"
	case strings.HasPrefix(rest, "search/"):
		return "search"
	}
	return "core"
}

// Kind says what went wrong with a request that has no answer of GitHub's.
type Kind string

const (
	// RateLimited: the hourly limit, or that of a minute's searches, is used up.
	RateLimited Kind = "rate limited"
	// Throttled is a secondary rate limit: too much at once.
	Throttled Kind = "throttled"
	// Down: 5xx, or no connection.
	Down Kind = "down"
	// Shut: the circuit is open, nothing was sent.
	Shut Kind = "circuit open"
	// TimedOut: no whole answer in time.
	TimedOut Kind = "timed out"
	// Insecure: TLS failed.
	Insecure Kind = "insecure"
	// TooLarge: the answer exceeds limit.Body.
	TooLarge Kind = "too large"
	// Redirected: too often, or away from the API.
	Redirected Kind = "redirected"
)

// Failure is a request that failed without an answer to hand on. Until is when
// to try again, zero when unknown. Its text holds neither host nor URL.
type Failure struct {
	Kind  Kind
	Until time.Time
	// Status is GitHub's, 0 without one.
	Status int
}

func (f *Failure) Error() string { return "GitHub: " + string(f.Kind) }
