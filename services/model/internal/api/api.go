// Package api is the common part of all providers of models: it sends one request over
// HTTP, and turns its failures into errors for the caller. Start at Client.Post.
package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Provider asks a model. The params have been checked; MaxTokens is within the
// limit.
type Provider interface {
	Sample(ctx context.Context, model string, p *mcp.CreateMessageParams) (*service.Sampled, error)
}

// maxBody is the largest answer of a provider, in bytes. Images are never requested.
const maxBody = 8 << 20

// Client sends the requests.
type Client struct {
	HTTP *http.Client
	// URL is the base, without a slash at its end.
	URL string
	// Header is sent with every request.
	Header http.Header
	// Key is the secret key; no message may contain it.
	Key string
}

// NewHTTP returns an HTTP client that follows no redirect: a redirect would send the key
// elsewhere. nil means a transport that uses the environment's proxies.
func NewHTTP(t http.RoundTripper) *http.Client {
	if t == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = 64 << 10
		t = own
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Post sends in and reads the answer into out. Its errors are meant for the caller of the model,
// except the error of ctx.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in, json.Deterministic(true))
	if err != nil {
		return fault.New(fault.InvalidParams, "the messages cannot be encoded for the model's provider").Because(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return misconfigured("BUSBAR_MODEL_URL is not a valid URL")
	}
	r.Header = c.Header.Clone()
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return c.notSent(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case resp.StatusCode != http.StatusOK:
		return c.refused(resp, answer)
	case err != nil:
		return fault.New(fault.Unavailable, "the model's provider broke off its answer; try again").Because(errors.New(c.clean(err.Error()))).Ran(fault.Yes)
	case len(answer) > maxBody:
		return fault.New(fault.ResultTooLarge, "the answer of the model's provider is larger than %d MiB", maxBody>>20)
	}
	// Providers may add members.
	if err := json.Unmarshal(answer, out, jsontext.AllowDuplicateNames(true)); err != nil {
		return Malformed("it is not the expected JSON").Because(err)
	}
	return nil
}

// Malformed returns the error for an invalid answer with status 200.
func Malformed(why string) *fault.Error {
	return fault.New(fault.Unavailable, "the answer of the model's provider is not valid: %s; ask the operator to check BUSBAR_MODEL_PROVIDER and BUSBAR_MODEL_URL", why).Ran(fault.Yes)
}

// misconfigured returns an error that only the operator can fix.
func misconfigured(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "the model is not configured correctly; report this to the operator: "+format, args...)
}

// notSent returns the error for a request without a response.
func (c *Client) notSent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	cause := errors.New(c.clean(err.Error()))
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fault.New(fault.Unavailable, "the model's provider cannot be reached; try again later").Because(cause)
	}
	return fault.New(fault.Unavailable, "the connection to the model's provider broke; try again").Because(cause).Ran(fault.Unknown)
}

// refused returns the error for a status other than 200.
func (c *Client) refused(resp *http.Response, body []byte) error {
	says, code := c.reason(body)
	cause := errors.New("status " + resp.Status + ": " + says)
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return misconfigured("the model's provider refuses the key; check BUSBAR_MODEL_API_KEY").Because(cause)
	case status == http.StatusPaymentRequired, code == "insufficient_quota", code == "billing_error":
		return misconfigured("the account at the model's provider has no credit left").Because(cause)
	case status == http.StatusNotFound:
		return misconfigured("the model's provider does not know the model or the address; check BUSBAR_MODEL_NAME and BUSBAR_MODEL_URL").Because(cause)
	case status == http.StatusTooManyRequests:
		f := fault.New(fault.RateLimited, "the model's provider has reached its rate limit; try again later").Because(cause)
		f.RetryAfter = retryAfter(resp.Header, time.Now())
		return f
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		if says == "" {
			says = "it gives no reason"
		}
		return fault.New(fault.InvalidParams, "the model's provider refuses the request: %s", fault.Clip(says)).Because(cause)
	case status >= 300 && status < 400:
		return misconfigured("the model's provider redirects to another address, and redirects are not followed; check BUSBAR_MODEL_URL").Because(cause)
	case status == http.StatusServiceUnavailable, status == 529: // 529: Anthropic is overloaded
		f := fault.New(fault.Unavailable, "the model's provider is overloaded; try again later").Because(cause)
		f.RetryAfter = retryAfter(resp.Header, time.Now())
		return f
	}
	return fault.New(fault.Unavailable, "the model's provider failed with status %d; try again later", resp.StatusCode).Because(cause).Ran(fault.Unknown)
}

// reason reads a provider's explanation of an error, in any of the known forms.
func (c *Client) reason(body []byte) (says, code string) {
	var e struct {
		Error jsontext.Value `json:"error"`
	}
	if json.Unmarshal(body, &e, jsontext.AllowDuplicateNames(true)) != nil {
		return "", ""
	}
	var detail struct {
		Message string         `json:"message"`
		Type    string         `json:"type"`
		Code    jsontext.Value `json:"code"`
	}
	if json.Unmarshal(e.Error, &detail, jsontext.AllowDuplicateNames(true)) != nil {
		_ = json.Unmarshal(e.Error, &detail.Message)
	}
	if code = strings.Trim(string(detail.Code), `"`); code == "" || code == "null" {
		code = detail.Type
	}
	return c.clean(detail.Message), code
}

// secret matches the keys of providers.
var secret = regexp.MustCompile(`\b(sk|key|pk)-[A-Za-z0-9_*-]{4,}`)

// clean removes secrets and non-text from a provider's message.
func (c *Client) clean(s string) string {
	if len(s) > 2000 {
		s = s[:2000]
	}
	if c.Key != "" {
		s = strings.ReplaceAll(s, c.Key, "***")
	}
	s = secret.ReplaceAllString(strings.ToValidUTF8(s, ""), "***")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
}

// maxRetryAfter is the longest pause that a provider may demand.
const maxRetryAfter = time.Hour

// retryAfter returns the pause that the provider demands; 0 if it demands none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	var d time.Duration
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		d = time.Duration(ms * float64(time.Millisecond))
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		d = time.Duration(s * float64(time.Second))
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// Answer makes a model's answer from its blocks: texts are joined, and a single block
// stands alone.
func Answer(model, stopReason string, blocks []mcp.SamplingBlock) (*service.Sampled, error) {
	var content []any
	texts, isText := "", true
	for _, b := range blocks {
		if b.Type == "text" {
			texts += b.Text
			content = append(content, textBlock{"text", b.Text})
		} else {
			isText = false
			content = append(content, b)
		}
	}
	var value any = content
	switch {
	case isText:
		value = textBlock{"text", texts}
	case len(content) == 1:
		value = content[0]
	}
	raw, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return nil, Malformed("its content cannot be passed on").Because(err)
	}
	return &service.Sampled{Role: "assistant", Content: raw, Model: model, StopReason: stopReason}, nil
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Unfit returns the error for content that the provider does not support.
func Unfit(what string) error {
	return fault.New(fault.InvalidParams, "the configured model's provider does not support %s", fault.Clip(what))
}
