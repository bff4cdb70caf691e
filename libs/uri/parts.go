package uri

import (
	"net/netip"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// maxHost is the longest host in bytes. DNS allows 253, but escapes and wide characters may make it longer.
const maxHost = 4 << 10

// authority writes host and port in their normal form. ok is false if the host is neither a name nor an address,
// or the port is not a number from 1 to 65535; the result is then the closest form.
func authority(scheme, raw string) (_ string, ok bool) {
	host, port := raw, ""
	if i := strings.LastIndexByte(raw, ':'); i > strings.LastIndexByte(raw, ']') {
		host, port = raw[:i], raw[i+1:]
	}
	host, ok = hostname(host)
	if port == "" {
		return host, ok
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		ok = false
	} else if port = strconv.FormatUint(n, 10); port == ports[scheme] {
		return host, ok
	}
	return host + ":" + port, ok
}

// hostname writes a name or an address in its normal form.
func hostname(raw string) (_ string, ok bool) {
	if inner, bracket := strings.CutPrefix(raw, "["); bracket {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		switch {
		case err != nil || addr.Zone() != "" || !strings.HasSuffix(inner, "]"):
			return strings.ToLower(raw), false
		case addr.Unmap().Is4(): // the same address to a dialer
			return addr.Unmap().String(), true
		}
		return "[" + addr.String() + "]", true
	}
	name := strings.ToLower(raw) // "_" is in use, but the profile of names below does not allow it
	if len(raw) > maxHost {
		return name, false
	}
	if ascii, err := idna.Lookup.ToASCII(raw); err == nil {
		name = ascii
	}
	name = strings.TrimSuffix(name, ".")
	if numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		// Some resolvers read 127.1, 0x7f.1 and 2130706433 as addresses.
		addr, err := netip.ParseAddr(name)
		return name, err == nil && addr.Is4()
	}
	labels := "." + name + "."
	return name, !strings.Contains(labels, "..") && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"#%*/:<>?@[\\]^`{|}", r)
	})
}

// numeric reports whether a label is a number, in decimal or hexadecimal.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// paths returns the readings of a path: with dot segments resolved before escapes and doubled slashes, after them,
// and both.
func paths(raw string) (all []string) {
	first, plain := unescape(withoutDots(unreserved(raw))), unescape(raw)
	for _, one := range [...]string{first, withoutDots(first), plain, withoutDots(plain)} {
		clean := path.Clean("/" + one)
		if strings.HasSuffix(one, "/") && clean != "/" {
			clean += "/"
		}
		if !strings.HasPrefix(raw, "/") {
			clean = clean[1:]
		}
		all = append(all, clean)
	}
	return all
}

// withoutDots resolves the segments "." and ".." of a path (RFC 3986, section 5.2.4). Empty segments count.
func withoutDots(raw string) string {
	rest, rooted := strings.CutPrefix(raw, "/")
	if !strings.Contains(rest, ".") {
		return raw
	}
	var out []string
	segments := strings.Split(rest, "/")
	for i, one := range segments {
		switch {
		case one == ".." && len(out) > 0:
			out = out[:len(out)-1]
		case one != "." && one != "..":
			out = append(out, one)
			continue
		}
		if i == len(segments)-1 {
			out = append(out, "") // the rest is a directory
		}
	}
	clean := strings.Join(out, "/")
	if rooted {
		return "/" + clean
	}
	return clean
}

// unescape decodes every valid escape of a text, once.
func unescape(s string) string { return decode(s, func(byte) bool { return true }) }

// unreserved decodes escapes of characters that mean the same without an escape (RFC 3986, section 2.3), and
// writes the other escapes in upper case.
func unreserved(s string) string {
	return decode(s, func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
	})
}

func decode(s string, plain func(byte) bool) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				if plain(byte(n)) {
					out = append(out, byte(n))
				} else {
					out = append(out, strings.ToUpper(s[i:i+3])...)
				}
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// cutAny cuts a text before the first of the given characters.
func cutAny(s, chars string) (before, rest string) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}
