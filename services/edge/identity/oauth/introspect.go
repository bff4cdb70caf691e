package oauth

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// knownTime is how long an issuer's answer about an opaque token is used. A revoked token
	// is refused after that.
	knownTime = 30 * time.Second
	// refusedTime is how long the issuer is not asked again about a refused token.
	refusedTime = 10 * time.Second
	// maxAsking bounds the concurrent questions.
	maxAsking = 64
)

// introspect asks the issuer about an opaque token. Without an answer the token is refused.
func (v *Verifier) introspect(ctx context.Context, digest [sha256.Size]byte, raw string) (*Token, error) {
	i := v.opaque
	if _, refused := v.refused.GetIfPresent(digest); refused {
		return nil, bad("the issuer says that it is not active")
	}
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	default:
		e := fault.New(fault.Overloaded, "too many tokens are being checked with the issuer; try again shortly")
		e.RetryAfter = time.Second
		return nil, e
	}
	answer, err := i.ask(ctx, raw)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the token's issuer cannot be reached to check it; try again shortly").Because(err)
	}
	token, err := i.accept(answer)
	if err != nil {
		v.refused.Set(digest, true)
		return nil, err
	}
	v.good.Set(digest, &verified{token: token, issuer: i, expires: slices.MinFunc([]time.Time{token.Expires, time.Now().Add(knownTime)}, time.Time.Compare)})
	return token, nil
}

func (i *issuer) ask(ctx context.Context, raw string) ([]byte, error) {
	at := i.cfg.Introspection.URL
	if at == "" {
		meta, err := i.source.metadata(ctx)
		if err != nil {
			return nil, err
		}
		at = meta.Introspection
		if err := checkURL(at); err != nil {
			return nil, err
		}
	}
	form := url.Values{"token": {raw}, "token_type_hint": {"access_token"}}.Encode()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(i.cfg.Introspection.ClientID), url.QueryEscape(i.cfg.Introspection.Secret))
	return i.source.do(r)
}

// accept reads the issuer's answer. A token without expiry is good until the next question.
func (i *issuer) accept(answer []byte) (*Token, error) {
	var c struct {
		claims
		Active bool `json:"active"`
	}
	if err := json.Unmarshal(answer, &c); err != nil || !c.Active {
		return nil, bad("the issuer says that it is not active")
	}
	if c.Issuer != "" && c.Issuer != i.cfg.URL {
		return nil, bad("issuer is another one")
	}
	if c.Expires == nil {
		end := float64(time.Now().Add(knownTime-Leeway).UnixNano()) / 1e9
		c.Expires = &end
	}
	if err := c.check(i, time.Now()); err != nil {
		return nil, err
	}
	return i.read(&c.claims, answer)
}
