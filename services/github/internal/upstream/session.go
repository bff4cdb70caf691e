package upstream

import (
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// session is the transport of one call. It sees and does what one token may.
type session struct {
	*Client
	token    string
	identity identity
	account  *account
}

// RoundTrip implements http.RoundTripper.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || !s.within(req.URL) {
		return nil, &fetch.Failure{Kind: Redirected}
	}
	resource := s.resource(req.URL)
	if f := s.account.blocked(resource, time.Now()); f != nil {
		return nil, f
	}
	out := req.Clone(req.Context())
	if s.token != "" {
		out.Header.Set("Authorization", "Bearer "+s.token)
	}
	key := cacheKey{s.identity, req.URL.String(), req.Header.Get("Accept")}
	known, _ := s.cache.Get(key)
	known.Revalidate(out.Header)

	a, err := s.guest.Do(out)
	if err != nil {
		return nil, err
	}
	if f := s.account.learn(s.guest, resource, a, time.Now()); f != nil {
		return nil, f
	}
	switch {
	case a.Status == http.StatusNotModified && known != nil:
		a = known.Answer(a.Header)
	case a.Status == http.StatusNotModified, a.Status >= 500:
		return nil, &fetch.Failure{Kind: fetch.Down, Status: a.Status, Until: s.guest.RetryAfter(a.Header, time.Now())}
	case a.Status == http.StatusOK:
		if e := fetch.Cache(a, limit.CacheEntry); e != nil {
			s.cache.Put(key, e, e.Cost(key.url))
		} else {
			s.cache.Remove(key)
		}
	default:
		// The resource is gone or forbidden now, so its cached copy must not be shown again.
		s.cache.Remove(key)
	}
	return a.Response(req), nil
}
