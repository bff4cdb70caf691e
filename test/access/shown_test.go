package access

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
)

// shown are the credentials of a request, and the outcome that it must have.
type shown struct {
	header http.Header
	want   outcome
}

func auth(values ...string) http.Header { return http.Header{"Authorization": values} }

// TestResourceServer shows every kind of token at every door, in every version:
// none is wrongly taken, none wrongly refused, and each challenge is exact (cases
// 58 to 63 of the catalogue).
func TestResourceServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, group := range sorted(w.tokens()) {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			all := w.tokens()[group]()
			t.Logf("%d cases at %d doors", len(all), len(doors))
			for _, name := range sorted(all) {
				t.Run(name, func(t *testing.T) {
					if group == "59 key ids" {
						t.Parallel() // some wait until keys may be read again
					}
					one := all[name]
					if group == "62 times" {
						one = w.tokens()[group]()[name] // of now, and not of when the first was tried
					}
					for _, d := range doors {
						w.try(t, d, auth("Bearer "+one.text), one.want, one.who)
					}
				})
			}
		})
	}
}

// TestCase57 shows nothing, something else, and several things.
func TestCase57(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.main.Token(resource, nil)
	for name, c := range map[string]shown{
		"a token":                 {auth("Bearer " + token), good},
		"small letters":           {auth("bearer " + token), good},
		"capitals":                {auth("BEARER " + token), good},
		"two blanks":              {auth("Bearer  " + token), good},
		"nothing":                 {http.Header{}, none},
		"no token":                {auth("Bearer"), none},
		"no token, and a blank":   {auth("Bearer "), none},
		"a password":              {auth("Basic YW5uYTpzZWNyZXQ="), none},
		"a token as a password":   {auth("Basic " + token), none},
		"a digest":                {auth(`Digest username="anna"`), none},
		"Kerberos":                {auth("Negotiate YII="), none},
		"the token alone":         {auth(token), none},
		"nearly the scheme":       {auth("Bearer2 " + token), none},
		"a colon":                 {auth("Bearer: " + token), none},
		"two headers":             {auth("Bearer "+token, "Bearer "+token), twice},
		"a good one and another":  {auth("Bearer "+token, "Basic x"), twice},
		"another and a good one":  {auth("Basic x", "Bearer "+token), twice},
		"two tokens":              {auth("Bearer " + token + " " + token), several},
		"two tokens, a comma":     {auth("Bearer " + token + ", Bearer " + token), several},
		"a cookie":                {http.Header{"Cookie": {"access_token=" + token + "; Authorization=Bearer " + token}}, none},
		"another header":          {http.Header{"X-Access-Token": {token}, "X-Api-Key": {token}, "Proxy-Authorization": {"Bearer " + token}}, none},
		"as if a proxy had said":  {http.Header{"X-Forwarded-User": {"root"}, "X-Forwarded-Access-Token": {token}}, none},
		"some text":               {auth("Bearer x"), wrong},
		"a token with a bad sign": {auth("Bearer " + token + "§"), wrong},
		"an unbound one as DPoP":  {auth("DPoP " + token), wrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, d := range doors {
				if d.name == "gRPC" && strings.ContainsRune(strings.Join(c.header["Authorization"], ""), '§') {
					continue // metadata is ASCII
				}
				w.try(t, d, c.header, c.want, "/anna")
			}
		})
	}
	t.Run("in the URL", func(t *testing.T) {
		for _, d := range doors {
			if d.name == "gRPC" {
				continue
			}
			at := *d
			at.path += "?access_token=" + token
			for _, h := range []http.Header{{}, auth("Bearer " + token)} {
				got, err := at.send(t.Context(), w, &at, h)
				if err != nil || got.status != http.StatusBadRequest {
					t.Errorf("%s: %d, %v", d.name, got.status, err)
				}
			}
		}
	})
	t.Run("in the body", func(t *testing.T) {
		form := &door{name: "form", method: "POST", path: "/mcp", body: "access_token=" + token, send: overHTTP}
		w.try(t, form, http.Header{}, none, "")
	})
}

func TestAPIKeysAtAllDoors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, over, gone := w.key(t, "good", time.Time{}), w.key(t, "over", time.Now().Add(-time.Second)), w.key(t, "gone", time.Time{})
	rest := doors[4]
	bustest.Eventually(t, "the last key is good", func() bool {
		got, err := rest.send(t.Context(), w, rest, auth("Bearer "+gone))
		return err == nil && got.status == 200
	})
	if err := w.keys.Revoke(t.Context(), gone[3:11]); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	bustest.Eventually(t, "the revoked key is refused", func() bool {
		got, err := rest.send(t.Context(), w, rest, auth("Bearer "+gone))
		return err == nil && got.status == 401
	})
	if d := time.Since(began); d > time.Second {
		t.Logf("revoked after %v, on a busy machine", d)
	}
	for name, c := range map[string]shown{
		"good": {auth("Bearer " + key), good}, "over": {auth("Bearer " + over), wrong}, "revoked": {auth("Bearer " + gone), wrong},
		"another secret": {auth("Bearer " + key[:12] + strings.Repeat("a", 32)), wrong}, "another id": {auth("Bearer bb_aaaaaaaa" + key[11:]), wrong},
		"capitals": {auth("Bearer " + strings.ToUpper(key)), wrong}, "shorter": {auth("Bearer " + key[:43]), wrong}, "longer": {auth("Bearer " + key + "a"), wrong},
		"the part that is shown": {auth("Bearer " + key[:11]), wrong}, "two": {auth("Bearer " + key + " " + key), several}, "as DPoP": {auth("DPoP " + key), wrong},
		"as a password": {auth("Basic " + key), none}, "the hash of one": {auth("Bearer bb_" + key[3:11] + "_" + strings.Repeat("7", 64)), wrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, d := range doors {
				w.try(t, d, c.header, c.want, "/anna")
			}
		})
	}
}

// TestProofs shows tokens that are bound to a key.
func TestProofs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := issuertest.NewKey("ES256", ""), issuertest.NewKey("ES256", "")
	token := w.main.Token(resource, claims{"cnf": claims{"jkt": key.Thumbprint()}})
	another := w.main.Token(resource, claims{"cnf": claims{"jkt": key.Thumbprint()}, "jti": "another"})
	with := func(proofs ...string) http.Header {
		return http.Header{"Authorization": {"DPoP " + token}, "Dpop": proofs}
	}
	proof := func(d *door, header, change claims) string {
		return key.Proof(d.method, d.url(w), token, header, change)
	}
	for name, c := range map[string]struct {
		show func(d *door) http.Header
		want outcome
	}{
		"good": {func(d *door) http.Header { return with(proof(d, nil, nil)) }, good},
		"small letters": {func(d *door) http.Header {
			h := with(proof(d, nil, nil))
			h.Set("Authorization", "dpop "+token)
			return h
		}, good},
		"a query and a part": {func(d *door) http.Header { return with(proof(d, nil, claims{"htu": d.url(w) + "?a=b#c"})) }, good},
		"encrypted in front": {func(d *door) http.Header {
			return with(proof(d, nil, claims{"htu": strings.Replace(d.url(w), "http:", "https:", 1)}))
		}, good},
		"as Bearer": {func(d *door) http.Header {
			h := with(proof(d, nil, nil))
			h.Set("Authorization", "Bearer "+token)
			return h
		}, wrong},
		"no proof":           {func(*door) http.Header { return with() }, unproof},
		"an empty proof":     {func(*door) http.Header { return with("") }, unproof},
		"two proofs":         {func(d *door) http.Header { return with(proof(d, nil, nil), proof(d, nil, nil)) }, unproof},
		"the token as proof": {func(*door) http.Header { return with(token) }, unproof},
		"another type":       {func(d *door) http.Header { return with(proof(d, claims{"typ": "JWT"}, nil)) }, unproof},
		"no algorithm":       {func(d *door) http.Header { return with(proof(d, claims{"alg": "none"}, nil)) }, unproof},
		"a secret's": {func(d *door) http.Header {
			return with(proof(d, claims{"alg": "HS256", "jwk": claims{"kty": "oct", "k": "AAAA"}}, nil))
		}, unproof},
		"another algorithm":  {func(d *door) http.Header { return with(proof(d, claims{"alg": "RS256"}, nil)) }, unproof},
		"no key":             {func(d *door) http.Header { return with(proof(d, claims{"jwk": nil}, nil)) }, unproof},
		"crit":               {func(d *door) http.Header { return with(proof(d, claims{"crit": []string{"x"}}, nil)) }, unproof},
		"another key":        {func(d *door) http.Header { return with(other.Proof(d.method, d.url(w), token, nil, nil)) }, unproof},
		"another signature":  {func(d *door) http.Header { return with(issuertest.Corrupt(proof(d, nil, nil))) }, unproof},
		"another method":     {func(d *door) http.Header { return with(proof(d, nil, claims{"htm": "PUT"})) }, unproof},
		"a method's letters": {func(d *door) http.Header { return with(proof(d, nil, claims{"htm": strings.ToLower(d.method)})) }, unproof},
		"another host":       {func(d *door) http.Header { return with(proof(d, nil, claims{"htu": "http://evil.example" + d.path})) }, unproof},
		"another path":       {func(d *door) http.Header { return with(proof(d, nil, claims{"htu": d.url(w) + "/x"})) }, unproof},
		"no URL":             {func(d *door) http.Header { return with(proof(d, nil, claims{"htu": nil})) }, unproof},
		"ten minutes old":    {func(d *door) http.Header { return with(proof(d, nil, claims{"iat": in(-10 * time.Minute)})) }, unproof},
		"ten minutes ahead":  {func(d *door) http.Header { return with(proof(d, nil, claims{"iat": in(10 * time.Minute)})) }, unproof},
		"four minutes old":   {func(d *door) http.Header { return with(proof(d, nil, claims{"iat": in(-4 * time.Minute)})) }, good},
		"no time":            {func(d *door) http.Header { return with(proof(d, nil, claims{"iat": nil})) }, unproof},
		"no id":              {func(d *door) http.Header { return with(proof(d, nil, claims{"jti": nil})) }, unproof},
		"no token":           {func(d *door) http.Header { return with(proof(d, nil, claims{"ath": nil})) }, unproof},
		"another token":      {func(d *door) http.Header { return with(key.Proof(d.method, d.url(w), another, nil, nil)) }, unproof},
		"5 KiB":              {func(d *door) http.Header { return with(proof(d, nil, claims{"x": strings.Repeat("x", 5000)})) }, unproof},
		"an id as long": {func(d *door) http.Header {
			return with(proof(d, nil, claims{"jti": strings.Repeat("x", 1000) + rand.Text()}))
		}, good},
		"an expired token": {func(d *door) http.Header {
			late := w.main.Token(resource, claims{"cnf": claims{"jkt": key.Thumbprint()}, "exp": in(-time.Hour)})
			return http.Header{"Authorization": {"DPoP " + late}, "Dpop": {key.Proof(d.method, d.url(w), late, nil, nil)}}
		}, wrong},
		"a token for another": {func(d *door) http.Header {
			theirs := w.main.Token(resource, claims{"cnf": claims{"jkt": other.Thumbprint()}})
			return http.Header{"Authorization": {"DPoP " + theirs}, "Dpop": {key.Proof(d.method, d.url(w), theirs, nil, nil)}}
		}, unproof},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, d := range doors {
				w.tryShowing(t, d, func() http.Header { return c.show(d) }, c.want, "/anna")
			}
		})
	}
	t.Run("again", func(t *testing.T) {
		for _, d := range doors {
			var once http.Header
			w.tryShowing(t, d, func() http.Header {
				once = with(proof(d, nil, nil))
				return once
			}, good, "/anna")
			w.try(t, d, once, unproof, "")
		}
	})
}
