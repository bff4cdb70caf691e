package door

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// PagePolicy lets a page's own style and, where it has one, its own script run, and the
// script talk to this edge; nothing else is loaded, sent or framed (Content Security
// Policy Level 3).
func PagePolicy(page string) string {
	policy := "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; style-src " + hashOf(page, "style")
	if strings.Contains(page, "<script>") {
		policy += "; connect-src 'self'; script-src " + hashOf(page, "script")
	}
	return policy
}

func hashOf(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	own, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(own))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page answers with a page under its policy.
func Page(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	Answer(w, http.StatusOK, "text/html; charset=utf-8", page)
}
