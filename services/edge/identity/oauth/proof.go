package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// proofTime is how old a proof may be, or how far ahead its client's clock.
	proofTime = 5 * time.Minute
	// maxProofs is how many proofs are remembered so that none is used twice, and
	// maxProofsOfKey how many of one key.
	maxProofs      = 200_000
	maxProofsOfKey = 50_000
	// maxProof is the longest proof, in bytes.
	maxProof = 4 << 10
)

// confirm checks that the client that sends a token is the one it was issued to.
func (v *Verifier) confirm(t *Token, r *Request) error {
	c := &t.confirmed
	if c.Certificate != "" {
		if r.Certificate == nil {
			return bad("bound to a certificate, but the client sent none")
		}
		sum := sha256.Sum256(r.Certificate.Raw)
		if !same(c.Certificate, base64url(sum[:])) {
			return bad("bound to another certificate")
		}
	}
	required := v.issuers[t.Issuer] != nil && v.issuers[t.Issuer].cfg.RequireDPoP
	switch {
	case c.Key != "" && !r.WithProof:
		return bad("bound to a key, but sent as Bearer")
	case c.Key == "" && r.WithProof:
		return bad("not bound to a key, but sent as DPoP")
	case c.Key == "" && required:
		return bad("not bound to a key, which this issuer's tokens must be")
	case c.Key != "":
		return v.prove(c.Key, r)
	}
	return nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// prove checks the proof that a client has the key (RFC 9449, 4.3).
func (v *Verifier) prove(thumbprint string, r *Request) error {
	if len(r.Proofs) != 1 || len(r.Proofs[0]) > maxProof {
		return badProof("there must be one proof")
	}
	parts, ok := split(r.Proofs[0])
	if !ok || !strings.EqualFold(parts.header.Typ, "dpop+jwt") || parts.header.Crit != nil || !slices.Contains(Algorithms, parts.header.Alg) {
		return badProof("its header says that it is not a proof")
	}
	var k jose.JSONWebKey
	if parts.header.JWK == nil || k.UnmarshalJSON(parts.header.JWK) != nil || !k.Valid() || !k.IsPublic() || !suits(parts.header.Alg, k.Key) {
		return badProof("it has no public key for its algorithm")
	}
	if sum, err := k.Thumbprint(sha); err != nil || !same(thumbprint, base64url(sum)) {
		return badProof("the key is not the token's")
	}
	if !signed(parts, k.Key) {
		return badProof("signature is not the key's")
	}
	var p struct {
		ID     string   `json:"jti"`
		Method string   `json:"htm"`
		URL    string   `json:"htu"`
		Issued *float64 `json:"iat"`
		Token  string   `json:"ath"`
	}
	if json.Unmarshal(parts.payload, &p) != nil || p.ID == "" || p.Issued == nil {
		return badProof("claims are missing")
	}
	sum := sha256.Sum256([]byte(r.Token))
	if p.Method != r.Method || !r.at(p.URL) || !same(p.Token, base64url(sum[:])) {
		return badProof("made for another request or token")
	}
	if r.Recheck {
		return nil
	}
	now := time.Now()
	issued, ok := moment(*p.Issued)
	if !ok || issued.Sub(now).Abs() > proofTime {
		return badProof("not made within five minutes")
	}
	return v.proofs.use(thumbprint, p.ID, now)
}

// at reports whether the request was made to a URL, ignoring its query and fragment. Behind a proxy that
// decrypts TLS, requests arrive as plain http.
func (r *Request) at(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User != nil {
		return false
	}
	port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	if port == "" || u.Scheme == "http" && r.Secure {
		return false
	}
	host := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), port) }
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return host(u.Host) == host(r.Host) && path == r.Path
}

// proofs are the used proofs. They are kept for as long as they could be used again: twice proofTime.
type proofs struct {
	mu sync.Mutex
	// known holds their digests; perKey has the number of proofs of each key.
	known  map[[sha256.Size]byte]bool
	perKey map[string]int
	// order holds them in order of arrival.
	order []used
}

type used struct {
	digest [sha256.Size]byte
	key    string
	until  time.Time
}

func newProofs() *proofs {
	return &proofs{known: map[[sha256.Size]byte]bool{}, perKey: map[string]int{}}
}

// use accepts a proof only once.
func (p *proofs) use(thumbprint, id string, now time.Time) error {
	digest := sha256.Sum256([]byte(thumbprint + " " + id))
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 && now.After(p.order[0].until) {
		old := p.order[0]
		p.order = p.order[1:]
		delete(p.known, old.digest)
		if p.perKey[old.key]--; p.perKey[old.key] == 0 {
			delete(p.perKey, old.key)
		}
	}
	if p.known[digest] {
		return badProof("used before")
	}
	if len(p.order) >= maxProofs || p.perKey[thumbprint] >= maxProofsOfKey {
		e := fault.New(fault.RateLimited, "too many requests with DPoP proofs in ten minutes; try again later")
		e.RetryAfter = proofTime
		return e
	}
	p.known[digest] = true
	p.perKey[thumbprint]++
	p.order = append(p.order, used{digest, thumbprint, now.Add(2 * proofTime)})
	return nil
}
