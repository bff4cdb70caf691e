// Package issuertest is an authorization server for tests; its tokens may be wrong in any way. Start at
// New.
package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an authorization server on loopback. It publishes one key for each algorithm; the key's id is
// the algorithm with a number.
type Issuer struct {
	// URL is its identifier.
	URL string
	// Reads counts the reads of its keys, Asked the introspections.
	Reads, Asked atomic.Int64

	mu   sync.Mutex
	keys map[string]*Key
	// answer replaces all answers, if not nil.
	answer http.HandlerFunc
	// opaque maps the tokens known to introspection to its answers.
	opaque map[string]map[string]any
	// grant returns the answer of the token endpoint.
	grant func(form url.Values) map[string]any
}

// Key is a signing key.
type Key struct {
	ID, Alg string
	Private crypto.Signer
}

// Secret and ClientID are the edge's credentials for introspection.
const (
	ClientID = "busbar-edge"
	Secret   = "canary-introspection-secret"
)

// New starts one for the test.
func New(t testing.TB) *Issuer {
	i := &Issuer{keys: map[string]*Key{}, opaque: map[string]map[string]any{}}
	i.Publish(rs256())
	i.Publish(ps256())
	i.Add("ES256", "ES256-1")
	i.Add("EdDSA", "EdDSA-1")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		write(w, map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "introspection_endpoint": i.URL + "/introspect",
			"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { i.Reads.Add(1); write(w, i.set()) })
	mux.HandleFunc("/introspect", i.introspect)
	mux.HandleFunc("/token", i.token)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		answer := i.answer
		i.mu.Unlock()
		if answer != nil {
			if r.URL.Path == "/keys" {
				i.Reads.Add(1)
			}
			answer(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	i.URL = s.URL
	return i
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *Issuer) set() jose.JSONWebKeySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Private.Public(), KeyID: k.ID, Algorithm: k.Alg, Use: "sig"})
	}
	return set
}

func (i *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	i.Asked.Add(1)
	if id, secret, _ := r.BasicAuth(); id != ClientID || secret != Secret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	says := i.opaque[r.PostFormValue("token")]
	i.mu.Unlock()
	if says == nil {
		says = map[string]any{"active": false}
	}
	write(w, says)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	i.mu.Lock()
	grant := i.grant
	i.mu.Unlock()
	if err == nil && grant != nil {
		if answer := grant(r.PostForm); answer != nil {
			write(w, answer)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
}

// Grant makes the token endpoint answer with the result of f; nil is a refusal.
func (i *Issuer) Grant(f func(form url.Values) map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.grant = f
}

// Opaque makes an opaque token with the given answer of introspection; nil removes it.
func (i *Issuer) Opaque(token string, says map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.opaque[token] = says
}

// Answer replaces all answers, until it is called with nil.
func (i *Issuer) Answer(f http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = f
}

// All issuers of a process share their RSA keys, because making them takes most of a test's time. Tests
// about the ownership of keys use other keys.
var (
	rs256 = sync.OnceValue(func() *Key { return NewKey("RS256", "RS256-1") })
	ps256 = sync.OnceValue(func() *Key { return NewKey("PS256", "PS256-1") })
)

// NewKey makes an unpublished key.
func NewKey(alg, id string) *Key {
	k := &Key{ID: id, Alg: alg}
	var err error
	switch alg {
	case "ES256":
		k.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, k.Private, err = ed25519.GenerateKey(rand.Reader)
	default:
		k.Private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err)
	}
	return k
}

// Add publishes a new key.
func (i *Issuer) Add(alg, id string) *Key { return i.Publish(NewKey(alg, id)) }

// Publish publishes a key.
func (i *Issuer) Publish(k *Key) *Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[k.ID] = k
	return k
}

// Remove withdraws a key.
func (i *Issuer) Remove(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
}

// Key returns a published key.
func (i *Issuer) Key(id string) *Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

// Claims returns the claims of a good token for an audience, with changes; nil removes a claim.
func (i *Issuer) Claims(audience string, changes map[string]any) map[string]any {
	now := time.Now()
	c := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "anna", "client_id": "inspector", "scope": "mcp:call", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Token returns a good token for an audience with changes, signed by ES256-1.
func (i *Issuer) Token(audience string, changes map[string]any) string {
	return i.Key("ES256-1").Token(nil, i.Claims(audience, changes))
}

// Token signs claims under a header with changes; nil removes a member.
func (k *Key) Token(header, claims map[string]any) string {
	h := map[string]any{"alg": k.Alg, "typ": "at+jwt", "kid": k.ID}
	maps.Copy(h, header)
	maps.DeleteFunc(h, func(_ string, v any) bool { return v == nil })
	return k.Sign(encode(h), encode(claims))
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Sign signs any texts as header and payload, whatever the header says.
func (k *Key) Sign(header, payload string) string {
	input := Encode(header) + "." + Encode(payload)
	return input + "." + Encode(string(k.signature(input)))
}

// Encode returns s in base64url without padding.
func Encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func (k *Key) signature(input string) []byte {
	sum := sha256.Sum256([]byte(input))
	var sig []byte
	var err error
	switch p := k.Private.(type) {
	case *rsa.PrivateKey:
		if k.Alg == "PS256" {
			sig, err = rsa.SignPSS(rand.Reader, p, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
			break
		}
		sig, err = rsa.SignPKCS1v15(rand.Reader, p, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, p, sum[:])
		if err = e; err == nil {
			sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	case ed25519.PrivateKey:
		sig = ed25519.Sign(p, []byte(input))
	}
	if err != nil {
		panic(err)
	}
	return sig
}

// HMAC signs with the public key as if it were a secret.
func (k *Key) HMAC(claims map[string]any) string {
	public, err := x509.MarshalPKIXPublicKey(k.Private.Public())
	if err != nil {
		panic(err)
	}
	input := Encode(encode(map[string]any{"alg": "HS256", "typ": "at+jwt", "kid": k.ID})) + "." + Encode(encode(claims))
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(input))
	return input + "." + Encode(string(mac.Sum(nil)))
}

// Proof returns a DPoP proof of a key for a request with a token, with changes of its header and claims;
// nil removes a member.
func (k *Key) Proof(method, url, token string, header, changes map[string]any) string {
	sum := sha256.Sum256([]byte(token))
	h := map[string]any{"typ": "dpop+jwt", "alg": k.Alg, "kid": nil, "jwk": jose.JSONWebKey{Key: k.Private.Public()}}
	maps.Copy(h, header)
	c := map[string]any{"jti": rand.Text(), "htm": method, "htu": url, "iat": time.Now().Unix(), "ath": Encode(string(sum[:]))}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return k.Token(h, c)
}

// Thumbprint returns the value by which a token names the key that it is bound to.
func (k *Key) Thumbprint() string {
	public := jose.JSONWebKey{Key: k.Private.Public()}
	sum, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return Encode(string(sum))
}

// Corrupt changes the last significant character of a token's signature.
func Corrupt(token string) string {
	at := strings.LastIndexByte(token, '.') + 3
	c := byte('A')
	if token[at] == c {
		c = 'B'
	}
	return token[:at] + string(c) + token[at+1:]
}
