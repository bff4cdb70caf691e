package identity

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

// invalid returns the error for a bad credential.
func invalid(message string) error {
	return fault.New(fault.Unauthenticated, "%s", message).Because(errInvalid)
}

var errInvalid = errors.New("invalid_token")

// unknown returns the error for a caller without a known credential.
func unknown() error {
	return fault.New(fault.Unauthenticated, "credentials are missing; send them as Authorization: Bearer")
}

// words are the challenges of a configuration (RFC 6750, 3; RFC 9728, 5.1; RFC 9449, 7.1).
type words struct {
	// where is resource_metadata, scopes the scopes that a client should request first; each
	// after a comma.
	where, scopes string
	// proofs is set if some issuer's tokens require proofs.
	proofs bool
}

func newWords(issuers []Issuer) words {
	var w words
	if at := MetadataURL(issuers); at != "" {
		w.where = `resource_metadata="` + at + `"`
	}
	var scopes []string
	for i := range issuers {
		w.proofs = w.proofs || issuers[i].RequireDPoP
		for _, s := range issuers[i].first() {
			if !slices.Contains(scopes, s) {
				scopes = append(scopes, s)
			}
		}
	}
	if slices.Sort(scopes); len(scopes) > 0 {
		w.scopes = `scope="` + strings.Join(scopes, " ") + `"`
	}
	return w
}

// algorithms are the signature algorithms of proofs.
var algorithms = `algs="` + strings.Join(oauth.Algorithms, " ") + `"`

func challenge(scheme string, params ...string) string {
	params = slices.DeleteFunc(params, func(p string) bool { return p == "" })
	if len(params) == 0 {
		return scheme
	}
	return scheme + " " + strings.Join(params, ", ")
}

// refuse adds the challenge to a refusal. The shown credential decides its form: without one, the
// challenge has no error.
func (w *words) refuse(err error) error {
	f := fault.From(err)
	var already gateway.Challenge
	if errors.As(err, &already) {
		return f
	}
	var c gateway.Challenge
	var problem *oauth.Problem
	switch known := errors.As(err, &problem); {
	case known && problem.Code == "invalid_dpop_proof":
		c = gateway.Challenge{challenge("DPoP", `error="invalid_dpop_proof"`, algorithms)}
	case f.Reason == fault.InvalidRequest && errors.Is(err, errTwo):
		c = gateway.Challenge{challenge("Bearer", `error="invalid_request"`, w.where)}
	case f.Reason != fault.Unauthenticated:
		return f
	case known || errors.Is(err, errInvalid):
		c = w.each(`error="invalid_token"`)
	default:
		c = w.each("")
	}
	return f.Because(&refusal{c, f.Unwrap()})
}

func (w *words) each(problem string) gateway.Challenge {
	c := gateway.Challenge{challenge("Bearer", problem, w.where, w.scopes)}
	if w.proofs {
		c = append(c, challenge("DPoP", problem, algorithms, w.where, w.scopes))
	}
	return c
}

// refusal is a challenge with the reason, which goes only to the log.
type refusal struct {
	challenge gateway.Challenge
	why       error
}

func (r *refusal) Error() string {
	if r.why == nil {
		return "no credentials"
	}
	return r.why.Error()
}

func (r *refusal) Unwrap() []error {
	if r.why == nil {
		return []error{r.challenge}
	}
	return []error{r.challenge, r.why}
}

// InsufficientScope returns the challenge for a call that needs other scopes. It names all of them at
// once.
func (a *Authenticator) InsufficientScope(scopes ...string) gateway.Challenge {
	w := &a.now.Load().words
	return gateway.Challenge{challenge("Bearer", `error="insufficient_scope"`, `scope="`+strings.Join(scopes, " ")+`"`, w.where)}
}

// MetadataURL returns the URL of the metadata of the resource for which issuers give
// tokens (RFC 9728, 3.1); empty without issuers.
func MetadataURL(issuers []Issuer) string {
	resource := resourceOf(issuers)
	u, err := url.Parse(resource)
	if err != nil || resource == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPath + strings.TrimSuffix(u.EscapedPath(), "/")
}
