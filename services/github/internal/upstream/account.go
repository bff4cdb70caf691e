package upstream

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// account holds GitHub's rate limits for one token, as far as they are known.
type account struct {
	mu sync.Mutex
	// all blocks every request: a secondary limit.
	all time.Time
	// used holds the time until which the limit of a resource is used up. There are three
	// resources: core, search, code_search.
	used map[string]time.Time
}

// blocked returns a failure if GitHub would refuse a request now.
func (a *account) blocked(resource string, now time.Time) *fetch.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.all) {
		return &fetch.Failure{Kind: Throttled, Until: a.all}
	}
	if until := a.used[resource]; now.Before(until) {
		return &fetch.Failure{Kind: RateLimited, Until: until}
	}
	return nil
}

// learn reads the limits from an answer, and returns a failure if the answer is a refusal
// because of one. See
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
func (a *account) learn(guest *fetch.Client, resource string, r *fetch.Answer, now time.Time) *fetch.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Header.Get("X-RateLimit-Remaining") == "0" {
		if until := reset(guest, r.Header, now); until.After(now) {
			if a.used == nil {
				a.used = map[string]time.Time{}
			}
			a.used[resource] = until
		}
	}
	if r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests {
		return nil
	}
	until := guest.RetryAfter(r.Header, now)
	switch {
	case !until.IsZero():
	case now.Before(a.used[resource]):
		return &fetch.Failure{Kind: RateLimited, Until: a.used[resource], Status: r.Status}
	case r.Status == http.StatusTooManyRequests, throttled(r.Body):
		until = now.Add(limit.Secondary)
	default:
		return nil
	}
	if until.After(a.all) {
		a.all = until
	}
	return &fetch.Failure{Kind: Throttled, Until: a.all, Status: r.Status}
}

// throttled recognises refusals that name the limit only in words.
func throttled(body []byte) bool {
	body = bytes.ToLower(body[:min(len(body), 4096)])
	for _, words := range []string{"secondary rate limit", "secondary-rate-limits", "abuse detection", "abuse-rate-limits"} {
		if bytes.Contains(body, []byte(words)) {
			return true
		}
	}
	return false
}

// reset returns when the limit of a resource begins again, by our own clock; zero if the answer does not
// say.
func reset(guest *fetch.Client, h http.Header, now time.Time) time.Time {
	seconds, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return time.Time{}
	}
	theirs := now
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		theirs = date
	}
	return guest.Clamp(now, time.Unix(seconds, 0).Sub(theirs))
}
