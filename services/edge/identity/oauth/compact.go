package oauth

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// compact is a JWS in compact form (RFC 7515), read but not verified.
type compact struct {
	// whole is the token itself.
	whole   string
	header  header
	payload []byte
}

// header holds the used members of a header. Members that point to keys (jku, x5u, x5c, jwk) are not read,
// except the key of a proof.
type header struct {
	Alg  string         `json:"alg"`
	Typ  string         `json:"typ"`
	Cty  string         `json:"cty"`
	Kid  string         `json:"kid"`
	Crit jsontext.Value `json:"crit"`
	JWK  jsontext.Value `json:"jwk"`
}

// split reads a JWS strictly; ok is false for anything else, such as an opaque or an encrypted token.
func split(token string) (*compact, bool) {
	one, rest, _ := strings.Cut(token, ".")
	two, three, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(three, ".") {
		return nil, false
	}
	c := &compact{whole: token}
	raw, ok := decode(one)
	if !ok || json.Unmarshal(raw, &c.header) != nil || c.header.Alg == "" {
		return nil, false
	}
	if c.payload, ok = decode(two); !ok {
		return nil, false
	}
	_, ok = decode(three)
	return c, ok
}

// decode decodes base64url in its only valid form. Go's own decoder would skip line breaks.
func decode(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil
}
