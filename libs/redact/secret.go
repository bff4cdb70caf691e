package redact

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Hidden replaces a secret that Replacer found.
const Hidden = "…"

// Replacer returns a replacer that hides one secret in any text: as it is, escaped as in a URL, or in base64 of
// either alphabet, at any offset. An empty secret hides nothing. Build one for each secret and keep it. A secret of
// fewer than 4 bytes is hidden only as it is, because its base64 is too short to recognise.
func Replacer(secret string) *strings.Replacer {
	if secret == "" {
		return strings.NewReplacer()
	}
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for offset := range 3 {
		if len(secret) < 4 {
			break
		}
		// Characters at both ends depend on the bytes next to the secret.
		first, last := (8*offset+5)/6, 8*(offset+len(secret))/6
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			forms = append(forms, alphabet.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))[first:last])
		}
	}
	var pairs []string
	for _, one := range forms {
		pairs = append(pairs, one, Hidden)
	}
	return strings.NewReplacer(pairs...)
}
