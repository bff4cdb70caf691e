package access

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
)

// tokens are the cases of access tokens, named by their fault: 58 to 63 of the catalogue. Each is
// shown as Bearer.
func (w *world) tokens() map[string]func() map[string]token {
	return map[string]func() map[string]token{
		"58 algorithms": w.algorithms, "59 key ids": w.keyIDs, "60 issuers": w.issuers, "61 audiences": w.audiences,
		"62 times": w.times, "63 kinds": w.kinds, "names": w.names, "opaque": w.opaque,
	}
}

// token is a token, and the outcome that it must have.
type token struct {
	text string
	want outcome
	who  string
}

func is(want outcome, text string) token { return token{text, want, "/anna"} }

type claims = map[string]any

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

func (w *world) algorithms() map[string]token {
	c := w.main.Claims(resource, nil)
	raw, _ := json.Marshal(c)
	key := func(alg string) *issuertest.Key { return w.main.Key(alg + "-1") }
	ec := key("ES256")
	plain := ec.Token(nil, c)
	parts := strings.Split(plain, ".")
	all := map[string]token{
		"RS256": is(good, key("RS256").Token(nil, c)), "PS256": is(good, key("PS256").Token(nil, c)),
		"ES256": is(good, plain), "EdDSA": is(good, key("EdDSA").Token(nil, c)),
		"RSA public key as a secret": is(wrong, key("RS256").HMAC(c)), "EC public key as a secret": is(wrong, ec.HMAC(c)),
		"no algorithm": is(wrong, ec.Token(claims{"alg": nil}, c)), "a number as algorithm": is(wrong, ec.Token(claims{"alg": 7}, c)),
		"algorithms":              is(wrong, ec.Token(claims{"alg": []string{"ES256"}}, c)),
		"no signature":            is(wrong, parts[0]+"."+parts[1]+"."),
		"two parts":               is(wrong, parts[0]+"."+parts[1]),
		"four parts":              is(wrong, plain+".x"),
		"half a signature":        is(wrong, plain[:len(plain)-43]),
		"a longer signature":      is(wrong, plain+"AAAA"),
		"another signature":       is(wrong, issuertest.Corrupt(plain)),
		"another payload":         is(wrong, parts[0]+"."+issuertest.Encode(strings.Replace(string(raw), "anna", "root", 1))+"."+parts[2]),
		"another header":          is(wrong, issuertest.Encode(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1","x":1}`)+"."+parts[1]+"."+parts[2]),
		"encrypted":               is(wrong, issuertest.Encode(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)+".a.b.c.d"),
		"a token in a token":      is(wrong, ec.Token(claims{"cty": "JWT"}, c)),
		"a token as payload":      is(wrong, ec.Sign(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1"}`, plain)),
		"padded":                  is(wrong, parts[0]+"=."+parts[1]+"."+parts[2]),
		"another alphabet":        is(wrong, parts[0]+"."+parts[1]+"."+base64.RawStdEncoding.EncodeToString([]byte("????>>>>~~~~"))),
		"JSON form":               is(several, `{"payload":"x","signatures":[]}`),
		"a key that nobody knows": is(wrong, issuertest.NewKey("ES256", "ES256-1").Token(nil, c)),
		"header twice":            is(wrong, ec.Sign(`{"alg":"ES256","alg":"none","typ":"at+jwt","kid":"ES256-1"}`, string(raw))),
		"header in capitals":      is(wrong, ec.Sign(`{"ALG":"ES256","typ":"at+jwt","kid":"ES256-1"}`, string(raw))),
		"header no object":        is(wrong, ec.Sign(`["ES256"]`, string(raw))),
		"empty parts":             is(wrong, ".."),
		"9 KiB":                   is(wrong, ec.Token(nil, w.main.Claims(resource, claims{"x": strings.Repeat("x", 7000)}))),
		"7 KiB":                   is(good, ec.Token(nil, w.main.Claims(resource, claims{"x": strings.Repeat("x", 5000)}))),
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS256", "HS512", "RS384", "RS512", "PS512", "ES384", "ES512", "ES256K", "es256", "ES256 "} {
		all["called "+alg] = is(wrong, ec.Token(claims{"alg": alg}, c))
		all["called "+alg+", unsigned"] = is(wrong, issuertest.Encode(fmt.Sprintf(`{"alg":%q,"typ":"at+jwt","kid":"ES256-1"}`, alg))+"."+parts[1]+".")
	}
	for _, a := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		for _, b := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
			if a != b {
				all[a+" called "+b] = is(wrong, key(a).Token(claims{"alg": b}, c))
				all[a+" by the key of "+b] = is(wrong, key(a).Token(claims{"kid": b + "-1"}, c))
			}
		}
	}
	return all
}

func (w *world) keyIDs() map[string]token {
	c, ec := w.main.Claims(resource, nil), w.main.Key("ES256-1")
	evil := w.stranger.Key("ES256-1")
	set := w.stranger.URL + "/keys"
	public := func(k *issuertest.Key) any {
		var h struct {
			JWK json.RawMessage `json:"jwk"`
		}
		raw, _ := base64.RawURLEncoding.DecodeString(strings.Split(k.Proof("", "", "", nil, nil), ".")[0])
		_ = json.Unmarshal(raw, &h)
		return h.JWK
	}
	all := map[string]token{
		"a number": is(wrong, ec.Token(claims{"kid": 1}, c)), "a list": is(wrong, ec.Token(claims{"kid": []string{"ES256-1"}}, c)),
		"missing": is(wrong, ec.Token(claims{"kid": nil}, c)), "empty": is(wrong, ec.Token(claims{"kid": ""}, c)),
		"keys elsewhere":         is(wrong, evil.Token(claims{"jku": set}, c)),
		"certificate elsewhere":  is(wrong, evil.Token(claims{"x5u": set}, c)),
		"its own key":            is(wrong, evil.Token(claims{"jwk": public(evil)}, c)),
		"its own certificate":    is(wrong, evil.Token(claims{"x5c": []string{"MAo="}}, c)),
		"good, and keys in vain": is(good, ec.Token(claims{"jku": set, "x5u": set, "jwk": public(evil)}, c)),
		"unknown crit":           is(wrong, ec.Token(claims{"crit": []string{"x"}, "x": 1}, c)),
		"known crit":             is(wrong, ec.Token(claims{"crit": []string{"exp"}, "exp": 1}, c)),
		"empty crit":             is(wrong, ec.Token(claims{"crit": []string{}}, c)),
		"payload as it is":       is(wrong, ec.Token(claims{"b64": false, "crit": []string{"b64"}}, c)),
	}
	// Each of these is waited for once, until the keys may be read again.
	for _, kid := range []string{"unknown", "../../../etc/passwd", set, "x' OR '1'='1", strings.Repeat("k", 3000), "ES256-1\x00", "es256-1"} {
		all[fmt.Sprintf("%.20q", kid)] = is(wrong, ec.Token(claims{"kid": kid}, c))
	}
	return all
}

func (w *world) issuers() map[string]token {
	of := func(iss any) string { return w.main.Token(resource, claims{"iss": iss}) }
	return map[string]token{
		"missing": is(wrong, of(nil)), "empty": is(wrong, of("")), "a slash behind": is(wrong, of(w.main.URL+"/")),
		"capitals": is(wrong, of(strings.Replace(w.main.URL, "http", "HTTP", 1))), "another scheme": is(wrong, of(strings.Replace(w.main.URL, "http", "https", 1))),
		"a list": is(wrong, of([]string{w.main.URL})), "a number": is(wrong, of(7)), "blanks": is(wrong, of(" "+w.main.URL)),
		"a name of this machine":    is(wrong, of(strings.Replace(w.main.URL, "127.0.0.1", "localhost", 1))),
		"another's, by its key":     is(wrong, w.stranger.Token(resource, nil)),
		"configured, by its key":    is(good, w.easy.Token(resource, nil)),
		"configured, by another's":  is(wrong, w.main.Token(resource, claims{"iss": w.easy.URL})),
		"configured, by a stranger": is(wrong, w.stranger.Token(resource, claims{"iss": w.main.URL})),
		"twice": is(wrong, w.main.Key("ES256-1").Sign(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1"}`,
			fmt.Sprintf(`{"iss":%q,"iss":%q,"sub":"anna","aud":%q,"exp":%d}`, w.main.URL, w.main.URL, resource, in(time.Minute)))),
	}
}

func (w *world) audiences() map[string]token {
	all := map[string]token{}
	for aud, want := range map[string]outcome{
		resource: good, "https://other.example/mcp": wrong, resource + "2": wrong, "https://mcp.example/mc": wrong, resource + "/": wrong, "": wrong,
		"https://mcp.example": wrong, "https://mcp.example/": wrong, "http://mcp.example/mcp": wrong, "https://mcp.example:443/mcp": wrong,
		"HTTPS://MCP.Example/mcp": good, "https://mcp.example/MCP": wrong, "https://mcp.example/%6dcp": wrong, resource + "?": wrong, resource + "#x": wrong,
		"https://a@mcp.example/mcp": wrong, "https://mcp.example./mcp": wrong, "https://mcp.example.evil/mcp": wrong, "inspector": wrong, "*": wrong, " " + resource: wrong,
		"https://mcp.example\\/mcp": wrong, "//mcp.example/mcp": wrong, "mcp.example/mcp": wrong,
	} {
		all[fmt.Sprintf("%q", aud)] = is(want, w.main.Token(aud, nil))
	}
	for name, c := range map[string]struct {
		aud  any
		want outcome
	}{
		"missing": {nil, wrong}, "ours among others": {[]string{"https://other.example", resource}, good}, "others": {[]string{"a", "b"}, wrong},
		"nobody's": {[]string{}, wrong}, "a number": {7, wrong}, "ours and a number": {[]any{resource, 7}, wrong}, "an object": {claims{"aud": resource}, wrong},
		"ours in a list in a list": {[]any{[]string{resource}}, wrong},
	} {
		all[name] = is(c.want, w.main.Token(resource, claims{"aud": c.aud}))
	}
	for aud, want := range map[string]outcome{
		rootAudience: good, rootAudience + "/": good, rootAudience + "//": wrong, "https://ROOT.example": good, "https://root.example/mcp": wrong, "https://root.example?": wrong,
	} {
		all["root "+aud] = is(want, w.easy.Token(aud, nil))
	}
	return all
}

func (w *world) times() map[string]token {
	all := map[string]token{
		"expired and for nothing": is(wrong, w.main.Token(resource, claims{"exp": in(-time.Hour), "scope": nil})),
		"exp twice": is(wrong, w.main.Key("ES256-1").Sign(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1"}`,
			fmt.Sprintf(`{"iss":%q,"sub":"anna","aud":%q,"exp":%d,"exp":%d}`, w.main.URL, resource, in(-time.Hour), in(time.Hour)))),
		"bad UTF-8": is(wrong, w.main.Key("ES256-1").Sign(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1"}`,
			fmt.Sprintf(`{"iss":%q,"sub":"anna","aud":%q,"exp":%d,"x":"`+"\xff"+`"}`, w.main.URL, resource, in(time.Hour)))),
		"something behind": is(wrong, w.main.Key("ES256-1").Sign(`{"alg":"ES256","typ":"at+jwt","kid":"ES256-1"}`,
			fmt.Sprintf(`{"iss":%q,"sub":"anna","aud":%q,"exp":%d} {}`, w.main.URL, resource, in(time.Hour)))),
	}
	for name, c := range map[string]struct {
		change claims
		want   outcome
	}{
		"no exp": {claims{"exp": nil}, wrong}, "exp is a text": {claims{"exp": fmt.Sprint(in(time.Hour))}, wrong}, "exp is a list": {claims{"exp": []int{1}}, wrong},
		"over within leeway": {claims{"exp": in(-10 * time.Second)}, good}, "over beyond leeway": {claims{"exp": in(-31 * time.Second)}, wrong},
		"over for a year": {claims{"exp": in(-365 * 24 * time.Hour)}, wrong}, "for 29 days": {claims{"exp": in(29 * 24 * time.Hour)}, good},
		"for 31 days": {claims{"exp": in(31 * 24 * time.Hour)}, wrong}, "for ever": {claims{"exp": 1e18}, wrong}, "exp is 1e300": {claims{"exp": 1e300}, wrong},
		"exp is zero": {claims{"exp": 0}, wrong}, "exp before 1970": {claims{"exp": -5}, wrong}, "exp has a fraction": {claims{"exp": float64(in(time.Hour)) + .5}, good},
		"soon, within leeway": {claims{"nbf": in(20 * time.Second)}, good}, "soon, beyond leeway": {claims{"nbf": in(time.Minute)}, wrong},
		"nbf is a text": {claims{"nbf": "0"}, wrong}, "nbf long ago": {claims{"nbf": 0}, good}, "issued ahead, within leeway": {claims{"iat": in(20 * time.Second)}, good},
		"issued ahead": {claims{"iat": in(time.Minute)}, wrong}, "iat is a text": {claims{"iat": "now"}, wrong}, "no iat": {claims{"iat": nil}, good},
		"issued in another time": {claims{"iat": 1e17}, wrong},
	} {
		all[name] = is(c.want, w.main.Token(resource, c.change))
	}
	return all
}

func (w *world) kinds() map[string]token {
	all := map[string]token{}
	for typ, want := range map[any][2]outcome{ // strict and lenient
		"at+jwt": {good, good}, "AT+JWT": {good, good}, "application/at+jwt": {good, good}, "JWT": {wrong, good}, nil: {wrong, good}, "": {wrong, good},
		"id_token": {wrong, wrong}, "logout+jwt": {wrong, wrong}, "dpop+jwt": {wrong, wrong}, "refresh+jwt": {wrong, wrong}, "secevent+jwt": {wrong, wrong},
		"oauth-id-jag+jwt": {wrong, wrong}, "at+jwt ": {wrong, wrong}, 7: {wrong, wrong},
	} {
		for i, of := range []*issuertest.Issuer{w.main, w.easy} {
			all[fmt.Sprintf("%v of %d", typ, i)] = is(want[i], of.Key("ES256-1").Token(claims{"typ": typ}, of.Claims(resource, nil)))
		}
	}
	for name, change := range map[string]claims{
		"ID token": {"nonce": "x"}, "ID token by hash": {"at_hash": "x"}, "ID token by claim": {"typ": "ID"}, "refresh token": {"typ": "Refresh"}, "offline token": {"typ": "Offline"},
	} {
		all[name] = is(wrong, w.easy.Key("ES256-1").Token(claims{"typ": "JWT"}, w.easy.Claims(resource, change)))
	}
	all["access token by claim"] = is(good, w.easy.Key("ES256-1").Token(claims{"typ": "JWT"}, w.easy.Claims(resource, claims{"typ": "Bearer"})))
	for name, cnf := range map[string]any{
		"bound to a key, as Bearer": claims{"jkt": issuertest.NewKey("ES256", "").Thumbprint()}, "bound to a certificate": claims{"x5t#S256": "x"},
		"bound in another way": claims{"kid": "x"}, "bound to nothing": claims{}, "bound to a text": "x",
	} {
		all[name] = is(wrong, w.main.Token(resource, claims{"cnf": cnf}))
	}
	return all
}

func (w *world) names() map[string]token {
	all := map[string]token{}
	for name, sub := range map[string]any{
		"missing": nil, "empty": "", "a number": 7, "a list": []string{"anna"}, "300 bytes": strings.Repeat("x", 300), "two lines": "a\nb", "who shows nothing": "anonymous",
		"hidden": "anna\u200b", "backwards": "\u202eanna",
	} {
		all[name] = is(wrong, w.main.Token(resource, claims{"sub": sub}))
	}
	all["another"] = token{w.main.Token(resource, claims{"sub": "żółw-7@example"}), good, "/żółw-7@example"}
	return all
}

func (w *world) opaque() map[string]token {
	says := func(change claims) claims {
		c := w.easy.Claims(resource, change)
		c["active"] = true
		maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
		return c
	}
	all := map[string]token{"unknown": is(wrong, "no-such-token"), "not a token": is(wrong, "%%%"), "unknown with dots": is(wrong, "a.b.c")}
	for name, c := range map[string]struct {
		change claims
		want   outcome
	}{
		"good": {nil, good}, "without an end": {claims{"exp": nil}, good}, "over": {claims{"exp": in(-time.Hour)}, wrong}, "for nobody": {claims{"aud": nil}, wrong},
		"for another": {claims{"aud": "https://other.example"}, wrong}, "another's": {claims{"iss": w.main.URL}, wrong}, "of nobody": {claims{"sub": nil}, wrong},
		"ended": {claims{"active": false}, wrong}, "maybe": {claims{"active": "true"}, wrong},
	} {
		answer := says(nil)
		maps.Copy(answer, says(c.change))
		for k, v := range c.change {
			if v == nil {
				delete(answer, k)
			} else {
				answer[k] = v
			}
		}
		text := "opaque-" + strings.ReplaceAll(name, " ", "-") + "-0123456789"
		w.easy.Opaque(text, answer)
		all[name] = is(c.want, text)
	}
	return all
}

// sorted are the names of cases.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
