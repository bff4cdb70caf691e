// Package oauth finds the owner of an access token, as an OAuth 2.1 resource server must. A token is a JWT
// of a configured issuer (RFC 9068, RFC 8725) whose audience is this server (RFC 8707), or an opaque one
// that the issuer is asked about (RFC 7662). A token bound to a key of its client is accepted only from
// that client (RFC 9449, RFC 8705).
//
// Nothing in a token is trusted before its signature is verified; the header's kid only selects a key of
// the issuer. While an issuer's keys cannot be read, its tokens are neither good nor bad, but unavailable.
// Start at Verifier.Verify.
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
	//limit:time difference of clocks that is accepted for access tokens | `unauthenticated`
	Leeway = 30 * time.Second
	// MaxToken is the longest token, in bytes.
	//limit:message an access token | `unauthenticated`
	MaxToken = 8 << 10
	// longest is the longest lifetime of a token. One that lives longer is not an access
	// token.
	longest = 30 * 24 * time.Hour
	// remembered is how many verified tokens are kept until they expire.
	remembered = 20_000
)

// Request is a client's request with its credentials.
type Request struct {
	Token string
	// Proofs are the values of the header DPoP. Proven is set if the token came with the
	// scheme DPoP instead of Bearer.
	Proofs    []string
	WithProof bool
	// Recheck is set if the request was accepted before and is checked again: then its
	// proof is already used and may be old.
	Recheck bool
	// Method, Host, Path and Secure describe the HTTP request.
	Method, Host, Path string
	Secure             bool
	// Certificate is the client's verified certificate; nil without one.
	Certificate *x509.Certificate
}

// Token is the content of a good token.
type Token struct {
	Issuer, Principal, Tenant string
	Scopes, Roles             []string
	// Program is set if the token is a client's own, not a person's.
	Program bool
	// Expires is the end of its validity, including Leeway.
	Expires time.Time

	confirmed confirmation
}

// Problem says what is wrong, in the terms of RFC 6750 and RFC 9449. It is the cause of a fault, whose
// message does not reveal it to the client.
type Problem struct {
	// Code is invalid_token, invalid_dpop_proof or invalid_request.
	Code string
	why  string
}

// Error implements error.
func (p *Problem) Error() string { return p.why }

func bad(why string) error {
	return fault.New(fault.Unauthenticated, "the access token is not valid for this server").Because(&Problem{"invalid_token", why})
}

func badProof(why string) error {
	return fault.New(fault.Unauthenticated, "the DPoP proof does not match the request").Because(&Problem{"invalid_dpop_proof", why})
}

var errExpired = fault.New(fault.Unauthenticated, "the access token has expired").Because(&Problem{"invalid_token", "expired"})

// Verifier verifies the tokens of some issuers. Close it after the last request that uses it.
type Verifier struct {
	issuers map[string]*issuer
	// opaque is the issuer that is asked about opaque tokens; may be nil.
	opaque *issuer
	proofs *proofs
	good   *otter.Cache[[sha256.Size]byte, *verified]
	// refused holds the opaque tokens that the issuer refused.
	refused *otter.Cache[[sha256.Size]byte, bool]
}

// verified is a token with the key that verified it. It stays good for as long as its issuer has that key.
type verified struct {
	token   *Token
	issuer  *issuer
	kid     string
	by      *key
	expires time.Time
}

// New returns a verifier. From before, which may be nil, it takes over the keys of unchanged issuers and
// the used proofs. Close before with CloseReplaced after its last use.
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

// Check returns an error if the issuers are not valid.
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
		return errors.New("only one issuer can have introspection, because an opaque token does not name its issuer")
	}
	return nil
}

// Close stops reading keys.
func (v *Verifier) Close() { v.closeBut(nil) }

// CloseReplaced is Close for a verifier whose keys another has taken over.
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

// Verify returns the content of a request's token. The error is a *fault.Error: Unauthenticated with a
// *Problem as its cause, Unavailable while the issuer's keys cannot be read, or RateLimited.
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
		// If an issuer withdraws a key, the key's tokens are revoked.
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

// verify checks a JWT that is not known yet.
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
