package identity

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Header is the Way of a custom header. check returns the principal of its value; it also sees the whole
// request. Its error is a *fault.Error with reason Unauthenticated. A header that appears twice is refused
// without calling check.
func Header(name string, check func(ctx context.Context, value string, c *gateway.Credentials) (gateway.Principal, error)) Way {
	return header{http.CanonicalHeaderKey(name), check}
}

// TakeKeysFrom also accepts API keys from a custom header. Call it before the authenticator is used.
func (a *Authenticator) TakeKeysFrom(name string) error {
	if strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return fmt.Errorf("%q is not a valid header name", name)
	}
	switch name = http.CanonicalHeaderKey(name); name {
	case "", "Authorization", "Cookie", "Host", "Origin", "Dpop", "Content-Type", "Content-Length", "Connection":
		return fmt.Errorf("%q already has a meaning; choose a header such as X-Custom-Auth", name)
	}
	a.keyHeader = name
	return nil
}

// Headers returns the headers besides Authorization in which clients send credentials.
func (a *Authenticator) Headers() (names []string) {
	if a.keyHeader != "" {
		names = append(names, a.keyHeader)
	}
	for _, w := range a.ways {
		if own, ok := w.(header); ok {
			names = append(names, own.name)
		}
	}
	return names
}

// Custom reports whether a request should be answered for a custom header: it has one, or it has no other
// credentials and there is no other kind.
func (a *Authenticator) Custom(h http.Header) bool {
	alone := len(h["Authorization"]) == 0 && !a.OAuth()
	if a.keyHeader != "" && (alone || len(h[a.keyHeader]) > 0) {
		return true
	}
	for _, w := range a.ways {
		if own, ok := w.(header); ok && (alone || len(h[own.name]) > 0) {
			return true
		}
	}
	return false
}

type header struct {
	name  string
	check func(context.Context, string, *gateway.Credentials) (gateway.Principal, error)
}

// Present implements Way.
func (h header) Present(c *gateway.Credentials) bool { return len(c.Header[h.name]) > 0 }

// Authenticate implements Way.
func (h header) Authenticate(ctx context.Context, c *gateway.Credentials) (gateway.Principal, error) {
	values := c.Header[h.name]
	if len(values) != 1 {
		return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s appears twice", h.name).Because(errTwo)
	}
	return h.check(ctx, values[0], c)
}
