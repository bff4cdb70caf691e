// Package fetch sends HTTP requests to other people's servers as a well-behaved client: with limits on
// time and memory, with retries if they may help, conditionally, and not at all while the host is down. It
// follows no redirect, and reads every answer whole. Start at Client.Do; Reader caches documents.
package fetch

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Limits are the limits of a Client. Each must be set.
type Limits struct {
	// Call is the time limit of a request with its retries, if its context has none. Margin
	// is kept back from the context's deadline, so that the caller can still report what
	// happened.
	Call, Margin time.Duration
	// Attempt is the time limit of one attempt, including the body; Attempts is how often a
	// failing request is tried.
	Attempt  time.Duration
	Attempts int
	// Backoff is the longest pause before the second attempt; it doubles for each further one.
	// The pause is random, from the upper half.
	Backoff time.Duration
	// Body is the largest answer read, decompressed, in bytes.
	Body int64
	// Failures in a row open the circuit; Open is how long it stays open before one
	// request probes.
	Failures int
	Open     time.Duration
	// Patience is how long an attempt must have waited for its timeout to count as the host's
	// failure: with less time the timeout proves nothing.
	Patience time.Duration
	// LongestWait is the longest pause that is accepted if the host asks for one.
	LongestWait time.Duration
}

// Client sends requests to one host.
type Client struct {
	limits    Limits
	transport http.RoundTripper
	circuit   circuit
}

// New returns a client. The transport must not follow redirects; see Transport.
func New(transport http.RoundTripper, limits Limits) *Client {
	return &Client{limits: limits, transport: transport, circuit: circuit{limits: limits}}
}

// Transport connects to hosts directly, or through the environment's proxy. header is the
// largest accepted header, in bytes.
func Transport(header int64) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = header
	t.MaxIdleConnsPerHost = 16
	return t
}

// Answer is a response read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Response returns the answer in the form of net/http.
func (a *Answer) Response(req *http.Request) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: req,
	}
}

// Kind says why a request has no answer from the host.
type Kind string

const (
	// Down: 5xx, or no connection.
	Down Kind = "down"
	// Shut: the circuit is open, nothing was sent.
	Shut Kind = "circuit open"
	// TimedOut: no whole answer in time.
	TimedOut Kind = "timed out"
	// Insecure: TLS failed.
	Insecure Kind = "insecure"
	// TooLarge: the answer exceeds Limits.Body.
	TooLarge Kind = "too large"
)

// Failure is a failed request without an answer. Until is the time to try again, zero if
// unknown. Its text contains neither host nor URL.
type Failure struct {
	Kind  Kind
	Until time.Time
	// Status is the host's, 0 without one.
	Status int
}

func (f *Failure) Error() string { return "fetch: " + string(f.Kind) }

// RetryAfter returns the time at which an answer asks for the next request, by our own clock
// and within the accepted limit; zero if it does not ask.
func (c *Client) RetryAfter(h http.Header, now time.Time) time.Time {
	value := h.Get("Retry-After")
	if value == "" {
		return time.Time{}
	}
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return c.Clamp(now, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return c.Clamp(now, at.Sub(theirNow(h, now)))
	}
	return time.Time{}
}

// Clamp returns now plus a pause that the host asks for: at least a second, and at most
// Limits.LongestWait.
func (c *Client) Clamp(now time.Time, pause time.Duration) time.Time {
	return now.Add(min(max(pause, time.Second), c.limits.LongestWait))
}

// theirNow returns the time by the host's clock, if it says so, otherwise our own.
func theirNow(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}
