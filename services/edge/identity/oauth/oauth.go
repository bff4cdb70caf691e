// Package oauth tells whose an access token is: OAuth 2.1 as a resource server
// has to know it. A token is a JWT of a configured issuer (RFC 9068, RFC 8725)
// whose audience is this server (RFC 8707), or one that the issuer is asked about
// (RFC 7662). What is bound to a key of its client is taken from that client only
// (RFC 9449, RFC 8705).
//
// Nothing in a token is believed before its signature: the header's kid finds a
// key among those of the issuer, and is nothing else. No key, no token: while an
// issuer's keys cannot be had, its tokens are neither good nor bad, but
// unavailable.
package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/maypok86/otter/v2"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// Leeway is how far clocks of issuers and edges may differ.
	Leeway = 30 * time.Second
	// MaxToken bounds a token, in bytes.
	MaxToken = 8 << 10
	// longest is how far away a token's end may be. What lasts longer is no access
	// token.
	longest = 30 * 24 * time.Hour
	// remembered is how many verified tokens are remembered until they expire.
	remembered = 20_000
)

// Request is what a client shows, and the request that it shows it with.
type Request struct {
	Token string
	// Proofs are the values of the header DPoP; Proven says that the token came with
	// the scheme DPoP rather than Bearer.
	Proofs []string
	Proven bool
	// Again says that the request was let in before, and is looked at again: its
	// proof is old by now, and known.
	Again bool
	// Method, Host, Path and Secure are of the HTTP request.
	Method, Host, Path string
	Secure             bool
	// Certificate is the client's, verified; nil for none.
	Certificate *x509.Certificate
}

// Token is what a good token says.
type Token struct {
	Issuer, Principal, Tenant string
	Scopes, Roles             []string
	// Program says that the token is a client's own, not of a person.
	Program bool
	// Expires is when it is good no more, Leeway included.
	Expires time.Time

	confirmed confirmation
}

// Problem is what is wrong, as RFC 6750 and RFC 9449 call it. It is the cause of
// a fault, whose message says nothing of it to the client.
type Problem struct {
	// Code is invalid_token, invalid_dpop_proof or invalid_request.
	Code string
	why  string
}

// Error implements error.
func (p *Problem) Error() string { return p.why }

func bad(why string) error {
	return fault.New(fault.Unauthenticated, "the access token is not good for this server").Because(&Problem{"invalid_token", why})
}

func badProof(why string) error {
	return fault.New(fault.Unauthenticated, "the DPoP proof does not fit the request").Because(&Problem{"invalid_dpop_proof", why})
}

var errExpired = fault.New(fault.Unauthenticated, "the access token has expired").Because(&Problem{"invalid_token", "expired"})

// Verifier verifies the tokens of some issuers. Close it when no request uses it
// any more.
type Verifier struct {
	issuers map[string]*issuer
	// opaque is the issuer that is asked about tokens which are no JWT; nil for
	// none.
	opaque *issuer
	proofs *proofs
	good   *otter.Cache[[sha256.Size]byte, *verified]
	// refused are the opaque tokens that the issuer said no to.
	refused *otter.Cache[[sha256.Size]byte, bool]
}

// verified is a token with the key that it was verified by: it is good for as
// long as its issuer has that key.
type verified struct {
	token   *Token
	issuer  *issuer
	kid     string
	by      *key
	expires time.Time
}

// New makes a verifier. Of before, which may be nil, it takes over the keys of the
// issuers that have not changed, and the proofs that were used; before is closed
// by CloseReplaced, once nobody asks it any more.
func New(issuers []Issuer, before *Verifier) (*Verifier, error) {
	if err := Check(issuers); err != nil {
		return nil, err
	}
	v := &Verifier{issuers: map[string]*issuer{}, good: otter.Must(&otter.Options[[sha256.Size]byte, *verified]{
		MaximumSize: remembered,
		ExpiryCalculator: otter.ExpiryCreatingFunc(func(e otter.Entry[[sha256.Size]byte, *verified]) time.Duration {
			return max(time.Until(e.Value.expires), time.Nanosecond)
		}),
	}), refused: otter.Must(&otter.Options[[sha256.Size]byte, bool]{
		MaximumSize: remembered, ExpiryCalculator: otter.ExpiryCreating[[sha256.Size]byte, bool](refusedTime),
	})}
	for _, cfg := range issuers {
		i := newIssuer(cfg)
		if before != nil {
			i.inherit(before.issuers[cfg.URL])
		}
		if v.issuers[cfg.URL] = i; cfg.Introspection != nil {
			v.opaque = i
		}
	}
	if v.proofs = newProofs(); before != nil {
		v.proofs = before.proofs
	}
	return v, nil
}

// Check says what is wrong with issuers.
func Check(issuers []Issuer) error {
	known := map[string]bool{}
	opaque := 0
	for i := range issuers {
		cfg := &issuers[i]
		if err := cfg.Check(); err != nil {
			return err
		}
		if known[cfg.URL] {
			return fmt.Errorf("issuer %s appears twice", cfg.URL)
		}
		known[cfg.URL] = true
		if cfg.Introspection != nil {
			opaque++
		}
	}
	if opaque > 1 {
		return errors.New("only one issuer can be asked about opaque tokens: they do not say whose they are")
	}
	return nil
}

// Close ends what reads keys.
func (v *Verifier) Close() { v.closeBut(nil) }

// CloseReplaced is Close for a verifier that another has taken over from.
func (v *Verifier) CloseReplaced(by *Verifier) { v.closeBut(by) }

func (v *Verifier) closeBut(kept *Verifier) {
	for url, i := range v.issuers {
		if kept == nil || kept.issuers[url] == nil || kept.issuers[url].keys != i.keys {
			i.keys.close()
		}
	}
	v.good.StopAllGoroutines()
	v.refused.StopAllGoroutines()
}

// Verify says whose the token of a request is. The error is a *fault.Error:
// Unauthenticated with a *Problem as its cause, Unavailable while the issuer's
// keys cannot be had, or RateLimited.
func (v *Verifier) Verify(ctx context.Context, r Request) (*Token, error) {
	token, err := v.token(ctx, r.Token)
	if err != nil {
		return nil, err
	}
	return token, v.confirm(token, &r)
}

func (v *Verifier) token(ctx context.Context, raw string) (*Token, error) {
	if len(raw) > MaxToken {
		return nil, bad("longer than 8 KiB")
	}
	digest := sha256.Sum256([]byte(raw))
	if known, ok := v.good.GetIfPresent(digest); ok && time.Now().Before(known.expires) {
		if known.by == nil {
			return known.token, nil
		}
		// An issuer that takes a key back takes its tokens back.
		if now, err := known.issuer.keys.find(ctx, known.kid); err == nil && contains(now, known.by) {
			return known.token, nil
		}
	}
	parts, ok := split(raw)
	if !ok {
		if v.opaque == nil || strings.Count(raw, ".") == 4 {
			return nil, bad("not a signed JWT")
		}
		return v.introspect(ctx, digest, raw)
	}
	found, err := v.verify(ctx, parts)
	if err != nil {
		return nil, err
	}
	v.good.Set(digest, found)
	return found.token, nil
}

// verify checks a JWT that has not been seen before.
func (v *Verifier) verify(ctx context.Context, parts *compact) (*verified, error) {
	var c claims
	if err := json.Unmarshal(parts.payload, &c); err != nil {
		return nil, bad("claims are not strict JSON")
	}
	i := v.issuers[c.Issuer]
	if i == nil {
		return nil, bad("issuer is not configured")
	}
	if err := i.acceptHeader(&parts.header); err != nil {
		return nil, err
	}
	by, err := i.signer(ctx, parts)
	if err != nil {
		return nil, err
	}
	if err := c.check(i, time.Now()); err != nil {
		return nil, err
	}
	token, err := i.read(&c, parts.payload)
	if err != nil {
		return nil, err
	}
	return &verified{token: token, issuer: i, kid: parts.header.Kid, by: by, expires: token.Expires}, nil
}
