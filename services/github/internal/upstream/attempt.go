package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// attempts makes a request until it has an answer, up to limit.Attempts times
// and not beyond its deadline. An error is a *Failure.
func (s *session) attempts(req *http.Request) (*answer, error) {
	for n := 1; ; n++ {
		leave, shut := s.circuit.enter(time.Now())
		if shut != nil {
			return nil, shut
		}
		start := time.Now()
		a, err := s.attempt(req)
		leave(outcomeOf(req.Context(), a, err, time.Since(start)), time.Now())
		if n == limit.Attempts || !worthRepeating(a, err) || !pause(req.Context(), n, a) {
			return a, err
		}
	}
}

// attempt makes a request once and reads its answer whole.
func (s *session) attempt(req *http.Request) (*answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), limit.Attempt)
	defer cancel()
	resp, err := s.transport.RoundTrip(req.Clone(ctx))
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength > limit.Body {
		return nil, &Failure{Kind: TooLarge, Status: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit.Body+1))
	switch {
	case err != nil:
		return nil, failure(ctx, err)
	case len(body) > limit.Body:
		return nil, &Failure{Kind: TooLarge, Status: resp.StatusCode}
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// failure tells what is behind a transport's error, and drops its text: it names
// hosts and addresses.
func failure(ctx context.Context, err error) *Failure {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		unknown     x509.UnknownAuthorityError
	)
	switch {
	case ctx.Err() != nil:
		return &Failure{Kind: TimedOut}
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &unknown):
		return &Failure{Kind: Insecure}
	}
	return &Failure{Kind: Down}
}

// worthRepeating is true where another attempt may end differently.
func worthRepeating(a *answer, err error) bool {
	var f *Failure
	if errors.As(err, &f) {
		return f.Kind == Down || f.Kind == TimedOut
	}
	switch a.status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause waits before the next attempt. It returns false, at once, when the wait
// would outlast the call, or GitHub asks for a longer one.
func pause(ctx context.Context, n int, a *answer) bool {
	longest := limit.Backoff << (n - 1)
	wait := longest/2 + rand.N(longest/2)
	if a != nil {
		if until := retryAfter(a.header, time.Now()); !until.IsZero() {
			wait = max(wait, time.Until(until))
		}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outcomeOf is what an attempt says about GitHub's health.
func outcomeOf(ctx context.Context, a *answer, err error, took time.Duration) outcome {
	var f *Failure
	switch {
	case !errors.As(err, &f):
		if a.status >= 500 {
			return failed
		}
		return succeeded
	case errors.Is(ctx.Err(), context.Canceled):
		return unclear
	case f.Kind == TimedOut && took < limit.Patience:
		return unclear
	case f.Kind == TooLarge && f.Status < 500:
		return succeeded
	}
	return failed
}
