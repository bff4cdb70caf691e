// Package token reads bearer tokens from files and checks requests for them. A token is one word.
// Start reading at Read and Token.Admits.
package token

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Token is the word that a request must show. The empty token admits no request.
type Token string

// Admits reports whether a request shows the token.
func (t Token) Admits(shown string) bool {
	return t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(shown)) == 1
}

// Shown returns the bearer token of a request's only Authorization header; false without one.
func Shown(h http.Header) (string, bool) {
	all := h["Authorization"]
	if len(all) != 1 {
		return "", false
	}
	return strings.CutPrefix(all[0], "Bearer ")
}

// minToken is the least length of a chosen token, in bytes.
const minToken = 16

// Read returns the token in a file; white space around it does not count.
func Read(name string) (Token, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(raw))
	if len(t) < minToken || strings.ContainsAny(t, " \t\r\n") {
		return "", fmt.Errorf("%s: a token is one word of %d characters or more, such as \"openssl rand -hex 20\" makes", name, minToken)
	}
	return Token(t), nil
}
