package oauth

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claims are the claims with a fixed meaning. Others are read if they are configured.
type claims struct {
	Issuer    string         `json:"iss"`
	Subject   string         `json:"sub"`
	Audience  Strings        `json:"aud"`
	Expires   *float64       `json:"exp"`
	NotBefore *float64       `json:"nbf"`
	Issued    *float64       `json:"iat"`
	Scope     jsontext.Value `json:"scope"`
	Scp       jsontext.Value `json:"scp"`
	Client    string         `json:"client_id"`
	Party     string         `json:"azp"`
	// Typ, Nonce and AtHash distinguish ID and refresh tokens from access tokens.
	Typ    string         `json:"typ"`
	Nonce  jsontext.Value `json:"nonce"`
	AtHash jsontext.Value `json:"at_hash"`
	// IDTyp and Gty mark a program's own token with Entra and Auth0.
	IDTyp        string        `json:"idtyp"`
	Gty          string        `json:"gty"`
	Confirmation *confirmation `json:"cnf"`
}

// confirmation names the key that a token is bound to (RFC 7800).
type confirmation struct {
	Key         string `json:"jkt"`
	Certificate string `json:"x5t#S256"`
	bound       bool
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. A binding of an unknown kind still counts as a
// binding.
func (c *confirmation) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain confirmation
	if err := json.UnmarshalDecode(d, (*plain)(c)); err != nil {
		return err
	}
	c.bound = true
	return nil
}

// Strings is an array of strings in JSON, or a single string, as aud in RFC 7519.
type Strings []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *Strings) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '[' {
		return json.UnmarshalDecode(d, (*[]string)(t))
	}
	var one string
	if err := json.UnmarshalDecode(d, &one); err != nil {
		return err
	}
	*t = Strings{one}
	return nil
}

// moment returns the time of a claim. ok is false for an impossible time.
func moment(seconds float64) (_ time.Time, ok bool) {
	if seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// check checks the claims that all access tokens must have. The signature must already be verified. Expiry
// comes first, so that a client learns that it must renew its token.
func (c *claims) check(i *issuer, now time.Time) error {
	if c.Expires == nil {
		return bad("exp is missing")
	}
	expires, ok := moment(*c.Expires)
	switch {
	case !ok || expires.Sub(now) > longest+Leeway:
		return bad("exp is more than 30 days away")
	case !now.Before(expires.Add(Leeway)):
		return errExpired
	}
	for name, claim := range map[string]*float64{"nbf": c.NotBefore, "iat": c.Issued} {
		if claim == nil {
			continue
		}
		if t, ok := moment(*claim); !ok || t.Sub(now) > Leeway {
			return bad(name + " is in the future")
		}
	}
	if !slices.ContainsFunc(c.Audience, i.audience.has) {
		return bad("audience is another server")
	}
	switch strings.ToLower(c.Typ) {
	case "id", "refresh", "offline", "logout":
		return bad("not an access token")
	}
	if c.AtHash != nil || c.Nonce != nil {
		return bad("an ID token")
	}
	if k := c.Confirmation; k != nil && k.bound && k.Key == "" && k.Certificate == "" {
		return bad("bound in an unknown way")
	}
	return nil
}

// read converts the claims of a good token.
func (i *issuer) read(c *claims, payload []byte) (*Token, error) {
	t := &Token{Issuer: i.cfg.URL, Scopes: append(scopes(c.Scope), scopes(c.Scp)...), Expires: expiry(*c.Expires)}
	if c.Confirmation != nil {
		t.confirmed = *c.Confirmation
	}
	var err error
	if t.Principal, err = text(payload, i.cfg.Principal); err != nil || !nameable(t.Principal) {
		return nil, bad("no principal in claim " + i.cfg.Principal)
	}
	if i.cfg.Tenant != "" {
		if t.Tenant, err = text(payload, i.cfg.Tenant); err != nil || !nameable(t.Tenant) {
			return nil, bad("no tenant in claim " + i.cfg.Tenant)
		}
	}
	if i.cfg.Roles != "" {
		t.Roles = list(payload, i.cfg.Roles)
	}
	t.Program = c.IDTyp == "app" || c.Gty == "client-credentials" ||
		c.Subject != "" && (c.Subject == c.Client || c.Subject == c.Party)
	return t, nil
}

func expiry(seconds float64) time.Time {
	t, _ := moment(seconds)
	return t.Add(Leeway)
}

// maxName is the longest name of a principal or tenant, in bytes.
const maxName = 256

// nameable reports whether a claim can be a name. Names go into records and must be unambiguous.
func nameable(s string) bool {
	return s != "" && s != "anonymous" && len(s) <= maxName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// maxScopes is the largest number of scopes, and of roles, of a token.
const maxScopes = 200

// scopes reads a claim of scopes: words separated by spaces (RFC 8693), or an array, which some issuers
// use.
func scopes(raw jsontext.Value) []string {
	var t Strings
	if raw == nil || json.Unmarshal(raw, &t) != nil {
		return nil
	}
	var all []string
	for _, one := range t {
		all = append(all, strings.Fields(one)...)
	}
	return all[:min(len(all), maxScopes)]
}

// claim finds a claim by its name or, without one of that name, by its path, such as
// realm_access.roles.
func claim(payload []byte, name string) jsontext.Value {
	var all map[string]jsontext.Value
	if json.Unmarshal(payload, &all) != nil {
		return nil
	}
	if v, ok := all[name]; ok {
		return v
	}
	first, rest, nested := strings.Cut(name, ".")
	if v, ok := all[first]; ok && nested {
		return claim(v, rest)
	}
	return nil
}

func text(payload []byte, name string) (s string, err error) {
	err = json.Unmarshal(claim(payload, name), &s)
	return s, err
}

func list(payload []byte, name string) []string {
	var t Strings
	if raw := claim(payload, name); raw == nil || json.Unmarshal(raw, &t) != nil {
		return nil
	}
	return t[:min(len(t), maxScopes)]
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
