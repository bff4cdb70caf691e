package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Do sends a request, which must be safe to repeat, until it has an answer: up to Limits.Attempts
// times, and for a little less time than its context allows. A status of 5xx counts as an answer.
// An error is a *Failure, or the error of an ended context.
func (c *Client) Do(req *http.Request) (*Answer, error) {
	ctx, cancel := c.withMargin(req.Context())
	defer cancel()
	a, err := c.attempts(req.WithContext(ctx))
	if err != nil && req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	return a, err
}

// withMargin returns a context that ends a little before the call's.
func (c *Client) withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, c.limits.Call)
	}
	left := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(c.limits.Margin, left/4)))
}

func (c *Client) attempts(req *http.Request) (*Answer, error) {
	for n := 1; ; n++ {
		leave, shut := c.circuit.enter(time.Now())
		if shut != nil {
			return nil, shut
		}
		start := time.Now()
		a, err := c.attempt(req)
		leave(c.outcomeOf(req.Context(), a, err, time.Since(start)), time.Now())
		if n == c.limits.Attempts || !worthRepeating(a, err) || !c.pause(req.Context(), n, a) {
			return a, err
		}
	}
}

// attempt sends a request once and reads the whole answer.
func (c *Client) attempt(req *http.Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.limits.Attempt)
	defer cancel()
	resp, err := c.transport.RoundTrip(req.Clone(ctx))
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength > c.limits.Body {
		return nil, &Failure{Kind: TooLarge, Status: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.limits.Body+1))
	switch {
	case err != nil:
		return nil, failure(ctx, err)
	case int64(len(body)) > c.limits.Body:
		return nil, &Failure{Kind: TooLarge, Status: resp.StatusCode}
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// failure classifies a transport's error and drops its text, which names hosts and
// addresses.
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

// worthRepeating reports whether another attempt may end differently.
func worthRepeating(a *Answer, err error) bool {
	var f *Failure
	if errors.As(err, &f) {
		return f.Kind == Down || f.Kind == TimedOut
	}
	switch a.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause waits before the next attempt. It returns false at once if the wait would outlast
// the call, or the host asks for a longer one.
func (c *Client) pause(ctx context.Context, n int, a *Answer) bool {
	longest := c.limits.Backoff << (n - 1)
	wait := longest/2 + rand.N(longest/2)
	if a != nil {
		if until := c.RetryAfter(a.Header, time.Now()); !until.IsZero() {
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

// outcomeOf returns what an attempt shows about the host's health.
func (c *Client) outcomeOf(ctx context.Context, a *Answer, err error, took time.Duration) outcome {
	var f *Failure
	switch {
	case !errors.As(err, &f):
		if a.Status >= 500 {
			return failed
		}
		return succeeded
	case errors.Is(ctx.Err(), context.Canceled):
		return unclear
	case f.Kind == TimedOut && took < c.limits.Patience:
		return unclear
	case f.Kind == TooLarge && f.Status < 500:
		return succeeded
	}
	return failed
}
