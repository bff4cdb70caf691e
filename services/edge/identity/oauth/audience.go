package oauth

import (
	"slices"
	"strings"
)

// audiences are the names under which tokens are for this server.
type audiences []string

func newAudiences(names []string) audiences {
	var a audiences
	for _, name := range names {
		a = append(a, canonical(name))
	}
	return a
}

// has reports whether a token's audience is this server: byte for byte, except for the case of scheme and
// host, and an empty path, which equals "/".
func (a audiences) has(claim string) bool { return slices.Contains(a, canonical(claim)) }

// canonical folds only the parts of http and https URLs that may be written in two ways: scheme and host
// to small letters, an empty path to "/".
func canonical(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return s
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if strings.Contains(host, "@") || !ascii(host) {
		return s
	}
	if path == "" {
		path = "/"
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(host) + path
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
