package door

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// PagePolicy lets a page use its own style; it may not load, run, send or be framed
// (Content Security Policy Level 3).
func PagePolicy(page string) string {
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page answers with a page under its policy.
func Page(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	Answer(w, http.StatusOK, "text/html; charset=utf-8", page)
}
