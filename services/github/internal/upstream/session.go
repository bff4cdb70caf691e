package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// session is the transport of one call: what one token may see and do.
type session struct {
	*Client
	token    string
	identity identity
	account  *account
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}

// RoundTrip implements http.RoundTripper.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || !s.within(req.URL) {
		return nil, &Failure{Kind: Redirected}
	}
	resource := s.resource(req.URL)
	if f := s.account.blocked(resource, time.Now()); f != nil {
		return nil, f
	}
	ctx, cancel := withMargin(req.Context())
	defer cancel()
	out := req.Clone(ctx)
	if s.token != "" {
		out.Header.Set("Authorization", "Bearer "+s.token)
	}
	key := cacheKey{s.identity, req.URL.String(), req.Header.Get("Accept")}
	known, _ := s.cache.get(key)
	known.ask(out.Header)

	a, err := s.attempts(out)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return nil, err
	}
	if f := s.account.learn(resource, a, time.Now()); f != nil {
		return nil, f
	}
	switch {
	case a.status == http.StatusNotModified && known != nil:
		a = known.answer(a.header)
	case a.status == http.StatusNotModified, a.status >= 500:
		return nil, &Failure{Kind: Down, Status: a.status, Until: retryAfter(a.header, time.Now())}
	case a.status == http.StatusOK:
		if e := newEntry(a); e != nil {
			s.cache.put(key, e, e.cost(key))
		} else {
			s.cache.remove(key)
		}
	default:
		// What is gone or forbidden now is not shown again.
		s.cache.remove(key)
	}
	return a.response(req), nil
}

// withMargin ends a little before the call does.
func withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, limit.Call)
	}
	left := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(limit.Margin, left/4)))
}
