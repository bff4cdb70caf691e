package web

import "net/netip"

// special are the address blocks without public services (IANA, IPv4 and IPv6 Special-Purpose
// Address Registries), including blocks whose addresses embed another address.
var special = func() (all []netip.Prefix) {
	for _, block := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(block))
	}
	return all
}()

var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// Public reports whether an address belongs to the public Internet.
func Public(at netip.AddrPort) bool {
	a := at.Addr().Unmap()
	if a.Zone() != "" || a.Is6() && !globalUnicast6.Contains(a) {
		return false
	}
	for _, block := range special {
		if block.Contains(a) {
			return false
		}
	}
	return a.IsValid()
}
