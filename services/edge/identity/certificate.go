package identity

import (
	"crypto/x509"
	"fmt"
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Certificate says whom a client certificate stands for, which the listener has
// verified. Exactly one of URI, DNS and Subject is set: a name that is in the
// certificate, or one with a single *, which stands for one or more characters but
// no / in a URI and no . in a DNS name.
type Certificate struct {
	// URI and DNS are alternative names, Subject is the common name.
	URI, DNS, Subject string
	// Principal is who that is; empty for what the * stands for, or the whole name
	// without one.
	Principal, Tenant string
	Roles             []string
	// Program says that it is a program, not a person.
	Program bool
}

// Check says what is wrong with a rule.
func (c Certificate) Check() error {
	set := 0
	for _, pattern := range []string{c.URI, c.DNS, c.Subject} {
		if pattern != "" {
			set++
		}
		if strings.Count(pattern, "*") > 1 {
			return fmt.Errorf("certificate %q: one * at most", pattern)
		}
	}
	if set != 1 {
		return fmt.Errorf("a certificate is known by one of uri, dns and subject; here are %d", set)
	}
	return nil
}

// maxName bounds the name of a principal.
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
	return gateway.Principal{}, invalid("the client certificate stands for nobody here")
}

// match reports whether a name is what a pattern says, and what its * stands for.
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

// CheckName refuses what cannot be the name of a principal: it goes into records,
// and is nobody's but its own.
func CheckName(s string) error {
	switch {
	case s == "" || len(s) > maxName:
		return fmt.Errorf("a name has 1 to %d bytes", maxName)
	case s == gateway.Anonymous.Name:
		return fmt.Errorf("%s is who shows nothing", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		return fmt.Errorf("%q has characters that cannot be seen", s)
	}
	return nil
}
