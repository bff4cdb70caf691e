package gateway_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestAccount(t *testing.T) {
	ada := gateway.Principal{Name: "ada", Tenant: "acme"}
	for name, c := range map[string]struct {
		who     gateway.Principal
		address string
		want    string
	}{
		"principal":               {ada, "192.0.2.1", "4:acmeada"},
		"anonymous":               {gateway.Anonymous, "192.0.2.1", "@192.0.2.1"},
		"anonymous, IPv4 in IPv6": {gateway.Anonymous, "::ffff:192.0.2.1", "@192.0.2.1"},
		"anonymous, IPv6":         {gateway.Anonymous, "2001:db8:1:2:3:4:5:6", "@2001:db8:1:2::/64"},
		"anonymous, stdio":        {gateway.Anonymous, "", "@"},
		"a tenant's anonymous":    {gateway.Principal{Name: "anonymous", Tenant: "acme"}, "192.0.2.1", "4:acmeanonymous"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gateway.Account(c.who, gateway.Credentials{Address: c.address}); got != c.want {
				t.Errorf("account is %q, want %q", got, c.want)
			}
		})
	}
}
