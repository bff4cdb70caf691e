// Package uri finds the one name of a resource whose URI has many spellings. Web returns the normal form
// of an http or https URI, which a reader requests. Readings returns the forms in which a service may
// understand a URI of any scheme, which a policy compares with its rules. The first reading of a web page
// comes from its normal form, so a policy sees one name for all URIs that lead to the same request. Start
// at Web and Readings.
package uri

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// ports maps the schemes of web pages to their default ports.
var ports = map[string]string{"http": "80", "https": "443"}

var errNotWeb = errors.New("not an http or https URI of a host, without a user")

// Web returns the normal form of an http or https URI (RFC 3986, section 6.2): scheme and host in lower case,
// the host in ASCII and without a final dot, an address in its shortest form, no default or empty port, a path
// without dot segments and without escapes of letters, digits, "-", ".", "_" and "~", no empty query, no
// fragment. Doubled slashes, other escapes and the query stay: servers may distinguish them. A URI with a user
// or without a host has no such form, nor does one that net/url cannot parse.
func Web(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	if ports[u.Scheme] == "" || u.Opaque != "" || u.User != nil {
		return "", errNotWeb
	}
	host, ok := authority(u.Scheme, u.Host)
	if !ok {
		return "", errNotWeb
	}
	query := ""
	if u.RawQuery != "" {
		query = "?" + u.RawQuery
	}
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	return u.Scheme + "://" + host + withoutDots("/"+unreserved(path)) + query, nil
}

// Host returns HOST or HOST:PORT as Web writes it in an https URI; ok is false if raw is neither.
func Host(raw string) (_ string, ok bool) { return authority("https", raw) }

// Readings returns the forms in which a service may understand a URI, at least one. Each has scheme and host in
// lower case, no escapes, no dot segments and no doubled slashes. The first is the reading of RFC 3986. Others
// follow if services differ: if dot segments meet doubled or escaped slashes, or if "?" and "#" may
// be part of a path. http and https URIs lose everything that Web removes, and are also read as leniently as
// browsers do. Text without a scheme only loses its escapes.
func Readings(raw string) (all []string) {
	if page, err := Web(raw); err == nil {
		all = pages(page)
	}
	scheme, rest, ok := strings.Cut(raw, ":")
	switch {
	case !ok || strings.Contains(scheme, "/"):
		return []string{unescape(raw)}
	case isWeb(scheme):
		all = append(all, pages(raw)...)
	default:
		all = append(others(scheme, rest, "?#"), others(scheme, rest, "")...)
	}
	once := all[:0]
	for _, one := range all {
		if !slices.Contains(once, one) {
			once = append(once, one)
		}
	}
	return once
}

// pages returns the readings of an http or https URI by a browser, which ignores white space, reads
// backslashes as slashes, and accepts any number of slashes before the host.
func pages(raw string) (all []string) {
	raw, _, _ = strings.Cut(forgiven(raw), "#")
	raw, query, _ := strings.Cut(raw, "?")
	if query != "" {
		query = "?" + unescape(query)
	}
	scheme, rest, _ := strings.Cut(raw, ":")
	scheme = strings.ToLower(unescape(scheme))
	host, path, _ := strings.Cut(strings.TrimLeft(slashes.Replace(rest), "/"), "/")
	host = unescape(host)
	host, _ = authority(scheme, host[strings.LastIndexByte(host, '@')+1:])
	for _, one := range paths("/" + path) {
		all = append(all, scheme+"://"+host+one+query)
	}
	return all
}

func isWeb(scheme string) bool { return ports[strings.ToLower(unescape(forgiven(scheme)))] != "" }

// slashes writes backslashes as slashes.
var slashes = strings.NewReplacer(`\`, "/", "%5c", "/", "%5C", "/")

// forgiven removes the white space that browsers ignore in a URL.
func forgiven(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }))
}

// others returns the readings of a URI of any other scheme. Its path ends at one of the given characters; the
// rest is part of the name.
func others(scheme, rest, ends string) (all []string) {
	scheme = strings.ToLower(unescape(scheme))
	host := ""
	if after, hosted := strings.CutPrefix(rest, "//"); hosted {
		host, rest = cutAny(after, "/"+ends)
		host = "//" + strings.ToLower(unescape(host))
	}
	path, tail := cutAny(rest, ends)
	tail = unescape(tail)
	if scheme == "file" && strings.HasPrefix(path, "/") { // on this machine, in either spelling (RFC 8089)
		host = "//" + strings.TrimPrefix(strings.TrimPrefix(host, "//"), "localhost")
	}
	for _, one := range paths(path) {
		all = append(all, scheme+":"+host+one+tail)
	}
	return all
}

// Pattern translates a pattern, given as the pieces of text between its wildcards. The result matches the
// readings of every URI that the original matches, and has at least one piece.
func Pattern(pieces []string) []string {
	scheme, rest, ok := strings.Cut(pieces[0], ":")
	page := ok && isWeb(scheme)
	if page {
		pieces = withoutFragment(pieces)
		_, rest, _ = strings.Cut(pieces[0], ":")
	}
	if len(pieces) == 1 {
		return Readings(pieces[0])[:1]
	}
	out := make([]string, len(pieces))
	for i, piece := range pieces {
		out[i] = unescape(piece)
	}
	if !ok {
		return out
	}
	after, hosted := strings.CutPrefix(rest, "//")
	end := strings.LastIndexByte(pieces[0], '/') + 1
	switch {
	case hosted && !strings.Contains(after, "/"): // the first wildcard is in the host
		out[0] = strings.ToLower(out[0])
		hosts(out, pieces, page, strings.ToLower(scheme))
	case end > 0:
		out[0] = Readings(pieces[0][:end])[0] + unescape(pieces[0][end:])
	default:
		out[0] = strings.ToLower(unescape(scheme)) + ":" + unescape(rest)
	}
	return out
}

// hosts writes the rest of a host after its first wildcard.
func hosts(out, pieces []string, page bool, scheme string) {
	last := len(pieces) - 1
	for i := 1; i <= last; i++ {
		host, path := cutAny(pieces[i], "/")
		open := path == ""
		host = strings.ToLower(unescape(host))
		if page && (!open || i == last) {
			host, _ = authority(scheme, host)
			if open && host != "" {
				path = "/" // like the reading of a page without a path
			}
		}
		out[i] = host + unescape(path)
		if !open {
			return
		}
	}
}

// withoutFragment returns the pieces of a pattern before the first "#".
func withoutFragment(pieces []string) []string {
	for i, piece := range pieces {
		if before, _, ok := strings.Cut(piece, "#"); ok {
			return append(pieces[:i:i], before)
		}
	}
	return pieces
}
