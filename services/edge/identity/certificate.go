package identity

import (
	"crypto/x509"
	"fmt"
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Certificate maps a client certificate, which the listener has verified, to a principal. Exactly one of
// URI, DNS and Subject is set: a name in the certificate, or a pattern with a single *. The * stands for
// one or more characters, but no / in a URI and no . in a DNS name.
type Certificate struct {
	// URI and DNS are alternative names, Subject is the common name.
	URI, DNS, Subject string
	// Principal is the principal's name. If empty, it is the text that the * matched, or the
	// whole name.
	Principal, Tenant string
	Roles             []string
	// Program is set for a program, as opposed to a person.
	Program bool
}

// Check returns an error if the rule is not valid.
func (c Certificate) Check() error {
	set := 0
	for _, pattern := range []string{c.URI, c.DNS, c.Subject} {
		if pattern != "" {
			set++
		}
		if strings.Count(pattern, "*") > 1 {
			return fmt.Errorf("certificate %q: use at most one *", pattern)
		}
	}
	if set != 1 {
		return fmt.Errorf("a certificate rule must have exactly one of uri, dns and subject; this one has %d", set)
	}
	return nil
}

// maxName is the longest name of a principal, in bytes.
const maxName = 256

// byCertificate finds the first rule for a certificate.
func byCertificate(rules []Certificate, cert *x509.Certificate) (gateway.Principal, error) {
	var uris []string
	for _, u := range cert.URIs {
		uris = append(uris, u.String())
	}
	for i := range rules {
		c := &rules[i]
		for _, kind := range []struct {
			what, pattern, stop string
			names               []string
		}{
			{"uri", c.URI, "/", uris},
			{"dns", c.DNS, ".", cert.DNSNames},
			{"subject", c.Subject, "", []string{cert.Subject.CommonName}},
		} {
			for _, name := range kind.names {
				part, ok := match(kind.pattern, name, kind.stop)
				if !ok {
					continue
				}
				p := gateway.Principal{Name: c.Principal, Tenant: c.Tenant, Roles: c.Roles, Program: c.Program,
					Expires: cert.NotAfter, Credential: "certificate " + kind.what + " " + name}
				if p.Name == "" {
					p.Name = part
				}
				if CheckName(p.Name) == nil {
					return p, nil
				}
			}
		}
	}
	return gateway.Principal{}, invalid("this edge does not know the client certificate")
}

// match reports whether a name matches a pattern, and the text that its * matched.
func match(pattern, name, stop string) (part string, ok bool) {
	before, after, open := strings.Cut(pattern, "*")
	switch {
	case pattern == "" || name == "":
		return "", false
	case !open:
		return name, name == pattern
	case len(name) <= len(before)+len(after) || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after):
		return "", false
	}
	part = name[len(before) : len(name)-len(after)]
	return part, stop == "" || !strings.Contains(part, stop)
}

// CheckName returns an error if s cannot be the name of a principal. Names go into records and must be
// unambiguous.
func CheckName(s string) error {
	switch {
	case s == "" || len(s) > maxName:
		return fmt.Errorf("a name must have 1 to %d bytes", maxName)
	case s == gateway.Anonymous.Name:
		return fmt.Errorf("%s is reserved for callers without credentials", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		return fmt.Errorf("%q contains invisible characters", s)
	}
	return nil
}
