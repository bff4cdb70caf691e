package identity_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
)

func proxy(t *testing.T) *identity.Proxy {
	t.Helper()
	p, err := identity.ProxyFlags{Header: "x-forwarded-user", TenantHeader: "X-Tenant", RolesHeader: "X-Forwarded-Groups", From: []string{"10.0.0.0/8", "fd00::/8", "192.0.2.7"}}.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// header makes one of lines of name and value.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestProxy(t *testing.T) {
	t.Parallel()
	const user = "X-Forwarded-User: anna"
	for name, c := range map[string]struct {
		from    string
		header  http.Header
		want    string // name/tenant/roles
		refused fault.Reason
	}{
		"from a proxy":                     {"10.1.2.3", header(user), "anna//", ""},
		"with all":                         {"10.1.2.3", header(user, "X-Tenant: acme", "X-Forwarded-Groups: dev, ops,,"), "anna/acme/dev ops", ""},
		"a proxy of version 6":             {"fd00::1", header(user), "anna//", ""},
		"mapped into version 6":            {"::ffff:10.1.2.3", header(user), "anna//", ""},
		"a single address":                 {"192.0.2.7", header(user), "anna//", ""},
		"spaces around":                    {"10.1.2.3", header("X-Forwarded-User:   anna  "), "anna//", ""},
		"from another address":             {"192.0.2.8", header(user), "", fault.InvalidRequest},
		"from loopback":                    {"127.0.0.1", header(user), "", fault.InvalidRequest},
		"from nowhere":                     {"", header(user), "", fault.InvalidRequest},
		"roles from elsewhere":             {"192.0.2.8", header("X-Forwarded-Groups: admin"), "", fault.InvalidRequest},
		"said by X-Forwarded-For to be it": {"192.0.2.8", header(user, "X-Forwarded-For: 10.1.2.3"), "", fault.InvalidRequest},
		"twice":                            {"10.1.2.3", header(user, "X-Forwarded-User: admin"), "", fault.InvalidRequest},
		"twice the same":                   {"10.1.2.3", header(user, user), "", fault.InvalidRequest},
		"a list":                           {"10.1.2.3", header("X-Forwarded-User: admin, anna"), "", fault.InvalidRequest},
		"two tenants":                      {"10.1.2.3", header(user, "X-Tenant: a,b"), "", fault.InvalidRequest},
		"two headers of roles":             {"10.1.2.3", header(user, "X-Forwarded-Groups: a", "X-Forwarded-Groups: admin"), "", fault.InvalidRequest},
		"empty":                            {"10.1.2.3", header("X-Forwarded-User: "), "", fault.Unauthenticated},
		"roles of nobody":                  {"10.1.2.3", header("X-Forwarded-Groups: admin"), "", fault.Unauthenticated},
		"anonymous":                        {"10.1.2.3", header("X-Forwarded-User: anonymous"), "", fault.InvalidRequest},
		"what cannot be seen":              {"10.1.2.3", header("X-Forwarded-User: an\u200bna"), "", fault.InvalidRequest},
		"not UTF-8":                        {"10.1.2.3", header("X-Forwarded-User: an\xffna"), "", fault.InvalidRequest},
		"a long name":                      {"10.1.2.3", header("X-Forwarded-User: " + strings.Repeat("a", 1000)), "", fault.InvalidRequest},
		"many roles":                       {"10.1.2.3", header(user, "X-Forwarded-Groups: "+strings.Repeat("a,", 101)), "", fault.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, shown := proxy(t), &gateway.Credentials{Address: c.from, Header: c.header}
			if !p.Present(shown) {
				t.Error("not seen")
			}
			who, err := p.Authenticate(t.Context(), shown)
			if c.refused != "" {
				if !fault.Is(err, c.refused) {
					t.Errorf("%+v %v, want %s", who, err, c.refused)
				}
				return
			}
			if got := who.Name + "/" + who.Tenant + "/" + strings.Join(who.Roles, " "); err != nil || got != c.want {
				t.Errorf("%s %v, want %s", got, err, c.want)
			}
		})
	}
	if p := proxy(t); p.Present(&gateway.Credentials{Header: header("Authorization: Bearer x", "X-Other: y")}) || p.Present(&gateway.Credentials{}) {
		t.Error("seen without a header")
	}
}

func TestProxyClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, said, want string }{
		"no proxy":                  {"192.0.2.1", "203.0.113.9", "192.0.2.1"},
		"a proxy":                   {"10.0.0.1", "203.0.113.9", "203.0.113.9"},
		"a proxy that says nothing": {"10.0.0.1", "", "10.0.0.1"},
		"two proxies":               {"10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9"},
		"what a client wrote":       {"10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
		"garbage that it wrote":     {"10.0.0.1", "<script>, 203.0.113.9", "203.0.113.9"},
		"garbage":                   {"10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"},
		"with a port":               {"10.0.0.1", "203.0.113.9:4711", "203.0.113.9"},
		"version 6":                 {"10.0.0.1", "2001:db8::1", "2001:db8::1"},
		"version 6, with a port":    {"10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"},
		"in two headers":            {"10.0.0.1", "203.0.113.9\n10.0.0.3", "203.0.113.9"},
		"proxies alone":             {"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for value := range strings.SplitSeq(c.said, "\n") {
				h.Add("X-Forwarded-For", value)
			}
			if got := proxy(t).Client(&gateway.Credentials{Address: c.from, Header: h}); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestProxyFlags(t *testing.T) {
	t.Parallel()
	if p, err := (identity.ProxyFlags{}).Proxy(); p != nil || err != nil || p.Names() {
		t.Errorf("%v %v", p, err)
	}
	if p, err := (identity.ProxyFlags{From: []string{"10.0.0.0/8"}}).Proxy(); err != nil || p.Names() || p.Client(&gateway.Credentials{Address: "10.0.0.1", Header: header("X-Forwarded-For: 192.0.2.1")}) != "192.0.2.1" {
		t.Errorf("%v %v", p, err)
	}
	for says, f := range map[string]identity.ProxyFlags{
		"--auth-proxy-from, such":     {Header: "X-User"},
		"--auth-proxy-from everybody": {Header: "X-User", From: []string{"everybody"}},
		"--auth-proxy-from 0.0.0.0/0": {Header: "X-User", From: []string{"10.0.0.0/8", "0.0.0.0/0"}},
		"--auth-proxy-from ::/0":      {Header: "X-User", From: []string{"::/0"}},
		"which names the caller":      {RolesHeader: "X-Groups", From: []string{"10.0.0.0/8"}},
		"Authorization: choose":       {Header: "authorization", From: []string{"10.0.0.0/8"}},
		"X-Forwarded-For: choose":     {Header: "X-Forwarded-For", From: []string{"10.0.0.0/8"}},
		"X-User: choose":              {Header: "X-User", TenantHeader: "x-user", From: []string{"10.0.0.0/8"}},
		"X_user: choose":              {Header: "X_User", From: []string{"10.0.0.0/8"}},
		"X User: choose":              {Header: "X User", From: []string{"10.0.0.0/8"}},
	} {
		if p, err := f.Proxy(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v %v, want %s", p, err, says)
		}
	}
}

// FuzzProxyClient: whatever the header says, the result is a valid address, or the
// connection's.
func FuzzProxyClient(f *testing.F) {
	f.Add("203.0.113.9, 10.0.0.2")
	f.Add("[::1]:80,,")
	p, err := identity.ProxyFlags{From: []string{"10.0.0.0/8"}}.Proxy()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said string) {
		got := p.Client(&gateway.Credentials{Address: "10.0.0.1", Header: http.Header{"X-Forwarded-For": {said}}})
		if got == "" || got != "10.0.0.1" && !slices.ContainsFunc([]string{".", ":"}, func(s string) bool { return strings.Contains(got, s) }) {
			t.Errorf("%q", got)
		}
	})
}
