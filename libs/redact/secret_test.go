package redact_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/redact"
)

func TestSecretIsHiddenInEveryForm(t *testing.T) {
	t.Parallel()
	const secret = "ghp_CANARY/+?token~0123456789"
	hide := redact.Replacer(secret)
	for _, around := range []string{"", "x", "xy", "xyz", "Bearer "} {
		text := around + secret + around
		for name, form := range map[string]string{
			"plain": text, "query": url.QueryEscape(text), "path": url.PathEscape(text),
			"base64": base64.StdEncoding.EncodeToString([]byte(text)), "base64url": base64.RawURLEncoding.EncodeToString([]byte(text)),
		} {
			got := hide.Replace(`{"a":"` + form + `"}`)
			if !strings.Contains(got, redact.Hidden) {
				t.Errorf("%s after %q: %s", name, around, got)
			}
			// The remaining base64 decodes to less than the secret.
			if strings.Contains(got, secret) || strings.Contains(got, "CANARY") {
				t.Errorf("%s after %q: %s", name, around, got)
			}
		}
	}
	for _, none := range []string{"", "ghp_CANARY", "nothing"} {
		if got := hide.Replace(none); got != none {
			t.Errorf("%q became %q", none, got)
		}
	}
	if got := redact.Replacer("").Replace("text"); got != "text" {
		t.Errorf("got %q", got)
	}
}
