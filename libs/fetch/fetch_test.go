package fetch_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
)

var limits = fetch.Limits{
	Call: 10 * time.Second, Margin: time.Second, Attempt: 2 * time.Second, Attempts: 3, Backoff: 100 * time.Millisecond,
	Body: 100, Failures: 5, Open: 10 * time.Second, Patience: time.Second, LongestWait: time.Hour,
}

// host answers requests in memory, and counts them.
type host struct {
	answer func(r *http.Request) *http.Response
	asked  []*http.Request
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked = append(h.asked, r)
	a := h.answer(r)
	if a == nil {
		return nil, errors.New("dial tcp secret.internal: refused")
	}
	return a, nil
}

func answer(status int, body string, headers ...string) *http.Response {
	a := &http.Response{StatusCode: status, Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
	return a
}

// A document is read once while it is fresh, then revalidated with its tag, and forgotten when it
// no longer exists.
func TestReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		r := fetch.NewReader(fetch.New(h, limits), http.Header{"User-Agent": {"test"}}, 10_000, 50)
		read := func(want string, asked int, conditional bool) {
			t.Helper()
			a, _, err := r.Get(t.Context(), "http://host/x")
			if err != nil || string(a.Body) != want || len(h.asked) != asked {
				t.Fatalf("%v %+v after %d requests; want %s after %d", err, a, len(h.asked), want, asked)
			}
			if last := h.asked[asked-1]; last.Header.Get("User-Agent") != "test" || (last.Header.Get("If-None-Match") == "\"1\"") != conditional {
				t.Fatalf("the last has %v", last.Header)
			}
		}
		h.answer = func(*http.Request) *http.Response {
			return answer(200, "one", "Etag", "\"1\"", "Cache-Control", "max-age=60")
		}
		read("one", 1, false)
		read("one", 1, false)
		time.Sleep(time.Minute)
		h.answer = func(*http.Request) *http.Response { return answer(304, "", "Cache-Control", "max-age=30") }
		read("one", 2, true)
		read("one", 2, true)
		time.Sleep(30 * time.Second)
		h.answer = func(*http.Request) *http.Response { return answer(404, "gone", "Cache-Control", "max-age=30") }
		read("gone", 3, true)
		h.answer = func(*http.Request) *http.Response {
			return answer(200, strings.Repeat("x", 51), "Etag", "\"1\"", "Cache-Control", "max-age=60")
		}
		for i := range 2 { // too large to be kept
			read(strings.Repeat("x", 51), 4+i, false)
		}
	})
}

// A failing request is repeated; after enough failures no request is sent.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*http.Request) *http.Response
		kind   fetch.Kind
		asked  int
	}{
		"no connection":         {func(*http.Request) *http.Response { return nil }, fetch.Down, 3},
		"down":                  {func(*http.Request) *http.Response { return answer(502, "") }, fetch.Down, 3},
		"too large":             {func(*http.Request) *http.Response { return answer(200, strings.Repeat("x", 101)) }, fetch.TooLarge, 1},
		"not modified, unasked": {func(*http.Request) *http.Response { return answer(304, "") }, fetch.Down, 1},
		"asks for a long pause": {func(*http.Request) *http.Response { return answer(503, "", "Retry-After", "30") }, fetch.Down, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &host{answer: c.answer}
				_, _, err := fetch.NewReader(fetch.New(h, limits), http.Header{}, 1000, 100).Get(t.Context(), "http://host/x")
				var f *fetch.Failure
				if !errors.As(err, &f) || f.Kind != c.kind || len(h.asked) != c.asked || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v after %d requests", err, len(h.asked))
				}
			})
		})
	}
}

func TestExpires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		cache, age, expires, date string
		want                      time.Duration // 0: not fresh
	}{
		{"", "", "", "", 0},
		{"public, max-age=60", "", "", "", time.Minute},
		{"Max-Age=\"60\"", "20", "", "", 40 * time.Second},
		{"max-age=60", "61", "", "", 0},
		{"max-age=60, no-cache", "", "", "", 0},
		{"no-cache, max-age=60", "", "", "", 0},
		{"no-store", "", "Sun, 22 Nov 2026 13:00:00 GMT", "", 0},
		{"max-age=-1", "", "", "", 0},
		{"max-age=99999999999999999999", "", "", "", 0},
		{"", "", "Sun, 22 Nov 2026 13:00:00 GMT", "", time.Hour},
		{"", "", "Sun, 22 Nov 2026 13:00:00 GMT", "Sun, 22 Nov 2026 12:30:00 GMT", 30 * time.Minute},
		{"", "", "Sun, 22 Nov 2026 11:00:00 GMT", "", 0},
		{"", "", "0", "", 0},
	} {
		h := http.Header{}
		for name, v := range map[string]string{"Cache-Control": c.cache, "Age": c.age, "Expires": c.expires, "Date": c.date} {
			if v != "" {
				h.Set(name, v)
			}
		}
		got := fetch.Expires(h, now)
		if c.want == 0 && !got.IsZero() || c.want > 0 && got.Sub(now) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Whatever headers say, nothing is kept for longer than 68 years, the most that max-age can say,
// and no pause is longer than the accepted limit.
func FuzzHeaders(f *testing.F) {
	f.Add("max-age=60", "5", "Sun, 22 Nov 2026 13:00:00 GMT", "7")
	f.Add("max-age=2147483647", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", "-7")
	c := fetch.New(nil, limits)
	f.Fuzz(func(t *testing.T, cache, age, at, retry string) {
		now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		h := http.Header{"Cache-Control": {cache}, "Age": {age}, "Expires": {at}, "Retry-After": {retry}}
		if e := fetch.Expires(h, now); !e.IsZero() && !e.After(now) {
			t.Errorf("%v: fresh until %v", h, e)
		}
		if u := c.RetryAfter(h, now); !u.IsZero() && (u.Before(now.Add(time.Second)) || u.After(now.Add(time.Hour))) {
			t.Errorf("%v: again at %v", h, u)
		}
	})
}

// However distant the expiry of a document, it is requested again after the accepted limit.
func TestReaderFarFuture(t *testing.T) {
	t.Parallel()
	for _, header := range [][]string{{"Expires", "Fri, 31 Dec 9999 23:59:59 GMT"}, {"Cache-Control", "max-age=2147483647"}, {"Cache-Control", "max-age=60", "Age", "-99999999999"}} {
		synctest.Test(t, func(t *testing.T) {
			h := &host{answer: func(*http.Request) *http.Response { return answer(200, "x", header...) }}
			r := fetch.NewReader(fetch.New(h, limits), http.Header{}, 10_000, 50)
			for want := 1; want <= 3; want++ {
				if _, expires, err := r.Get(t.Context(), "http://host/x"); err != nil || len(h.asked) != want || time.Until(expires) > limits.LongestWait {
					t.Errorf("%v: %v, %d requests, fresh until %v", header, err, len(h.asked), expires)
				}
				time.Sleep(limits.LongestWait + time.Second)
			}
		})
	}
}
