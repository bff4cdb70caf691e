// Package fetch makes HTTP requests to somebody else's interface as a good guest
// makes them: with bounded patience and memory, again where that may help,
// conditionally, and not at all while the host is down.
//
// It follows no redirect, and reads every answer whole.
package fetch

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Limits are the bounds of a Client. Each has to be set.
type Limits struct {
	// Call is the longest that a request takes with its repetitions, where its
	// context says nothing. Margin is kept back from the context's deadline, so that
	// the caller can still say what happened.
	Call, Margin time.Duration
	// Attempt is the longest one attempt takes, body included; Attempts is how often
	// a request that fails is made at most.
	Attempt  time.Duration
	Attempts int
	// Backoff is the longest pause before the second attempt; it doubles for each
	// further one. The pause is drawn at random from its upper half.
	Backoff time.Duration
	// Body is the largest answer read, decompressed, in bytes.
	Body int64
	// Failures in a row open the circuit; Open is how long it stays so before one
	// request probes.
	Failures int
	Open     time.Duration
	// Patience is how long an attempt must have waited for its time-out to count as
	// the host's failure: a call with little time left says nothing.
	Patience time.Duration
	// LongestWait is the longest pause that is believed when the host asks for one.
	LongestWait time.Duration
}

// Client makes requests to one host.
type Client struct {
	limits    Limits
	transport http.RoundTripper
	circuit   circuit
}

// New makes a client. The transport must not follow redirects; see Transport.
func New(transport http.RoundTripper, limits Limits) *Client {
	return &Client{limits: limits, transport: transport, circuit: circuit{limits: limits}}
}

// Transport reaches hosts directly, or through the proxy that the environment
// names. header is the largest header read, in bytes.
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

// Response is the answer in the form of net/http.
func (a *Answer) Response(req *http.Request) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: req,
	}
}

// Kind says what went wrong with a request that has no answer of the host's.
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

// Failure is a request that failed without an answer to hand on. Until is when
// to try again, zero when unknown. Its text holds neither host nor URL.
type Failure struct {
	Kind  Kind
	Until time.Time
	// Status is the host's, 0 without one.
	Status int
}

func (f *Failure) Error() string { return "fetch: " + string(f.Kind) }

// RetryAfter is when an answer asks to be asked again: after a number of seconds or
// at a date, by our own clock, and within what is believed. Zero when it does not ask.
func (c *Client) RetryAfter(h http.Header, now time.Time) time.Time {
	value := h.Get("Retry-After")
	if value == "" {
		return time.Time{}
	}
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return c.Believed(now, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return c.Believed(now, at.Sub(theirNow(h, now)))
	}
	return time.Time{}
}

// Believed is now plus a pause that the host asks for: at least a second, and no
// longer than Limits.LongestWait.
func (c *Client) Believed(now time.Time, pause time.Duration) time.Time {
	return now.Add(min(max(pause, time.Second), c.limits.LongestWait))
}

// theirNow is the time by the host's clock, as far as it says.
func theirNow(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}
