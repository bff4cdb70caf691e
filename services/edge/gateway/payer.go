package gateway

import "net/netip"

// Payer names the party that a call's use of shared room is counted for: its
// principal, or the address of its client while that is anonymous. A call that a
// service makes counts for the party of the call it carries out. Empty before
// the call is authenticated.
func (c *Call) Payer() string { return c.payer }

// Payer names the party that a client's use of shared room is counted for,
// besides calls.
func Payer(p Principal, c Credentials) string {
	if p.Name != Anonymous.Name || p.Tenant != Anonymous.Tenant {
		return p.ID()
	}
	// IDs of principals begin with a digit.
	return "@" + network(c.Address)
}

// network is the part of an address that one party has for itself: an IPv6
// client can take any address of its /64.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64)
	return p.String()
}
