package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/upstream"
)

// server answers requests in memory, in the time of a synctest bubble.
type server func(r *http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// answer is a response with headers given as name and value in turn.
func answer(status int, body string, headers ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

const body = `{"full_name":"o/r"}`

// client reads repository o/r with a token.
func client(s server) func(ctx context.Context, token string) error {
	base, _ := url.Parse("https://api.github.example/")
	c := upstream.New(base, s, "test")
	return func(ctx context.Context, token string) error {
		api, err := c.As(token)
		if err != nil {
			return err
		}
		_, _, err = api.Repositories.Get(ctx, "o", "r")
		return err
	}
}

// failed is the failure in an error's chain; its zero value for none.
func failed(err error) fetch.Failure {
	var f *fetch.Failure
	if errors.As(err, &f) {
		return *f
	}
	return fetch.Failure{}
}

// After the circuit's pause one request probes: its failure keeps it open, its
// success closes it.
func TestCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up, requests := false, 0
		hold := make(chan struct{})
		get := client(func(*http.Request) (*http.Response, error) {
			requests++
			if up {
				<-hold
				return answer(200, body), nil
			}
			return answer(500, ""), nil
		})
		for requests < limit.Failures {
			if err := get(t.Context(), ""); failed(err).Kind != fetch.Down && failed(err).Kind != fetch.Shut {
				t.Fatal(err)
			}
		}
		opened := time.Now()
		if f := failed(get(t.Context(), "")); f.Kind != fetch.Shut || f.Until.Before(opened) || f.Until.After(opened.Add(limit.Open)) || requests != limit.Failures {
			t.Fatalf("%+v after %d requests", f, requests)
		}
		time.Sleep(limit.Open)
		if f := failed(get(t.Context(), "")); f.Kind != fetch.Shut || requests != limit.Failures+1 {
			t.Fatalf("the probe: %+v after %d requests", f, requests)
		}
		time.Sleep(limit.Open)
		up = true
		var probe sync.WaitGroup
		probe.Go(func() {
			if err := get(t.Context(), ""); err != nil {
				t.Errorf("the good probe: %v", err)
			}
		})
		synctest.Wait()
		if f := failed(get(t.Context(), "")); f.Kind != fetch.Shut {
			t.Errorf("beside the probe: %+v", f)
		}
		close(hold)
		probe.Wait()
		if err := get(t.Context(), ""); err != nil {
			t.Errorf("after the probe: %v", err)
		}
	})
}

// Callers that give up, or have no time, do not open the circuit.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		get := client(func(r *http.Request) (*http.Response, error) {
			requests++
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for range 2 * limit.Failures {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if f := failed(get(ctx, "")); f.Kind != fetch.TimedOut {
				t.Errorf("no time: %+v", f)
			}
			if left := time.Until(deadline(ctx)); left <= 0 {
				t.Errorf("told %s after the deadline", -left)
			}
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			if err := get(ctx, ""); !errors.Is(err, context.Canceled) {
				t.Errorf("gave up: %v", err)
			}
			cancel()
		}
		if requests != 4*limit.Failures {
			t.Errorf("%d requests", requests)
		}
	})
}

func deadline(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// A hanging request is given up and repeated, within the call's time.
func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		get := client(func(r *http.Request) (*http.Response, error) {
			if requests++; requests == 2 {
				return answer(200, body), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begun := time.Now()
		if err := get(t.Context(), ""); err != nil || time.Since(begun) < limit.Attempt || time.Since(begun) > limit.Attempt+limit.Backoff {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		requests = 2
		begun = time.Now()
		if f := failed(get(t.Context(), "")); f.Kind != fetch.TimedOut || time.Since(begun) > limit.Call || requests != 5 {
			t.Errorf("after %s and %d requests: %+v", time.Since(begun), requests, f)
		}
	})
}

// A limit counts until it ends, by our clock, and for a limited time at most.
func TestLimits(t *testing.T) {
	t.Parallel()
	unix := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	for _, tt := range []struct {
		name  string
		reply func(now time.Time) *http.Response
		kind  fetch.Kind
		wait  time.Duration
	}{
		{"until the reset", func(now time.Time) *http.Response {
			return answer(403, "{}", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", unix(now.Add(time.Minute)))
		}, upstream.RateLimited, time.Minute},
		{"until the reset, by a clock an hour ahead", func(now time.Time) *http.Response {
			return answer(403, "{}", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", unix(now.Add(61*time.Minute)), "Date", now.Add(time.Hour).UTC().Format(http.TimeFormat))
		}, upstream.RateLimited, time.Minute},
		{"a second, when the reset has passed", func(now time.Time) *http.Response {
			return answer(403, "{}", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", unix(now.Add(-time.Hour)))
		}, upstream.RateLimited, time.Second},
		{"at most two hours, when the reset is far away", func(now time.Time) *http.Response {
			return answer(403, "{}", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999999")
		}, upstream.RateLimited, limit.LongestWait},
		{"as many seconds as Retry-After says", func(time.Time) *http.Response { return answer(429, "{}", "Retry-After", "7") }, upstream.Throttled, 7 * time.Second},
		{"until the date that Retry-After says", func(now time.Time) *http.Response {
			return answer(403, "{}", "Retry-After", now.Add(9*time.Second).UTC().Format(http.TimeFormat))
		}, upstream.Throttled, 9 * time.Second},
		{"a minute, when Retry-After is nonsense", func(time.Time) *http.Response { return answer(429, "{}", "Retry-After", "soon") }, upstream.Throttled, limit.Secondary},
		{"a minute, when only words tell", func(time.Time) *http.Response {
			return answer(403, `{"message":"You have triggered an abuse detection mechanism."}`)
		}, upstream.Throttled, limit.Secondary},
		{"a second, when Retry-After is negative", func(time.Time) *http.Response { return answer(429, "{}", "Retry-After", "-5") }, upstream.Throttled, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				get := client(func(*http.Request) (*http.Response, error) {
					if requests++; requests == 1 {
						return tt.reply(time.Now()), nil
					}
					return answer(200, body), nil
				})
				begun := time.Now()
				for _, what := range []string{"the refusal", "the next request"} {
					if f := failed(get(t.Context(), "")); f.Kind != tt.kind || f.Until.Sub(begun) != tt.wait {
						t.Errorf("%s: %+v, for %s; want %s for %s", what, f, f.Until.Sub(begun), tt.kind, tt.wait)
					}
				}
				if err := get(t.Context(), "another"); err != nil {
					t.Errorf("another token: %v", err)
				}
				time.Sleep(tt.wait)
				if err := get(t.Context(), ""); err != nil || requests != 3 {
					t.Errorf("afterwards: %v, %d requests", err, requests)
				}
			})
		})
	}
	t.Run("a plain refusal blocks nothing", func(t *testing.T) {
		t.Parallel()
		get := client(func(*http.Request) (*http.Response, error) {
			return answer(403, `{"message":"Forbidden"}`, "X-RateLimit-Remaining", "10"), nil
		})
		for range 2 {
			var refusal *gh.ErrorResponse
			if err := get(t.Context(), ""); !errors.As(err, &refusal) {
				t.Error(err)
			}
		}
	})
}

// The cache keeps the most recently used answers within its limit, and forgets resources that no
// longer exist.
func TestCache(t *testing.T) {
	t.Parallel()
	conditional, status := false, 200
	padding := strings.Repeat(" ", limit.CacheEntry)
	base, _ := url.Parse("https://api.github.example/")
	c := upstream.New(base, server(func(r *http.Request) (*http.Response, error) {
		conditional = r.Header.Get("If-None-Match") != "" && r.Header.Get("If-Modified-Since") != ""
		if conditional && status == 200 {
			return answer(304, ""), nil
		}
		return answer(status, padding, "Etag", `"1"`, "Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT", "Content-Type", "text/plain"), nil
	}), "test")
	want := func(token string, kept bool) {
		t.Helper()
		api, err := c.As(token)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := api.PullRequests.GetRaw(t.Context(), "o", "r", 1, gh.RawOptions{Type: gh.Diff}); status == 200 && err != nil {
			t.Fatal(err)
		}
		if conditional != kept {
			t.Errorf("%q is asked for conditionally: %t", token, conditional)
		}
	}
	want("first", false)
	want("first", true)
	const fit = limit.Cache / (limit.CacheEntry + 2048)
	for i := range fit {
		want(fmt.Sprint(i), false)
	}
	want("first", false) // displaced by the others
	want("5", true)
	status = 404
	want("5", true)
	status = 200
	want("5", false) // forgotten, although it came back
	padding += " "
	want("large", false)
	want("large", false)
}

func TestOnlyReads(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("https://api.github.example/api/v3")
	c := upstream.New(base, server(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return answer(200, body), nil
	}), "test")
	api, err := c.As("token")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := api.Issues.Create(t.Context(), "o", "r", gh.CreateIssueRequest{}); failed(err).Kind != upstream.Redirected {
		t.Errorf("a write: %v", err)
	}
	for _, to := range []string{"https://elsewhere.example/api/v3/x", "/user", "//elsewhere.example/x", "http://api.github.example/api/v3/x"} {
		req, err := api.NewRequest(t.Context(), "GET", to, nil)
		if err != nil {
			continue
		}
		if _, err := api.Do(req, nil); failed(err).Kind != upstream.Redirected {
			t.Errorf("%s: %v", to, err)
		}
	}
}
