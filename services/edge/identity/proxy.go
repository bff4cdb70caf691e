package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// ProxyFlags are the flags for a proxy in front of the edge that authenticates users and names them in
// headers. The tags are read by kong.
type ProxyFlags struct {
	Header       string   `name:"auth-proxy-header" env:"BUSBAR_AUTH_PROXY_HEADER" placeholder:"NAME" help:"Header in which a proxy names the caller, such as X-Forwarded-User. It is accepted only from --auth-proxy-from and refused from other addresses."`
	TenantHeader string   `name:"auth-proxy-tenant-header" env:"BUSBAR_AUTH_PROXY_TENANT_HEADER" placeholder:"NAME" help:"Header in which the proxy names the caller's tenant."`
	RolesHeader  string   `name:"auth-proxy-roles-header" env:"BUSBAR_AUTH_PROXY_ROLES_HEADER" placeholder:"NAME" help:"Header in which the proxy lists the caller's roles, such as X-Forwarded-Groups. Commas separate the roles."`
	From         []string `name:"auth-proxy-from" env:"BUSBAR_AUTH_PROXY_FROM" placeholder:"NETWORK" help:"Networks of the proxies, such as 10.0.0.0/8. Their X-Forwarded-For names the client's address."`
}

// Proxy returns the configured proxy; nil without flags.
func (f ProxyFlags) Proxy() (*Proxy, error) {
	if f.Header == "" && f.TenantHeader == "" && f.RolesHeader == "" && len(f.From) == 0 {
		return nil, nil
	}
	if len(f.From) == 0 {
		return nil, errors.New("--auth-proxy-header needs the networks of the proxies; set --auth-proxy-from, such as 10.0.0.0/8")
	}
	if f.Header == "" && f.TenantHeader+f.RolesHeader != "" {
		return nil, errors.New("--auth-proxy-tenant-header and --auth-proxy-roles-header need --auth-proxy-header, which names the caller")
	}
	p := &Proxy{user: http.CanonicalHeaderKey(f.Header), tenant: http.CanonicalHeaderKey(f.TenantHeader), roles: http.CanonicalHeaderKey(f.RolesHeader)}
	for _, name := range []string{p.user, p.tenant, p.roles} {
		if name == "" {
			continue
		}
		if !plain(name) || slices.Contains(taken, name) || slices.Contains(p.headers, name) {
			return nil, fmt.Errorf("--auth-proxy-header %s: choose a header of letters and hyphens without another meaning, such as X-Forwarded-User", name)
		}
		p.headers = append(p.headers, name)
	}
	for _, text := range f.From {
		network, err := netip.ParsePrefix(text)
		if address, failed := netip.ParseAddr(text); err != nil && failed == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || network.Bits() == 0 {
			return nil, fmt.Errorf("--auth-proxy-from %s: set an address, or a network that does not include every address, such as 10.0.0.0/8", text)
		}
		p.from = append(p.from, network.Masked())
	}
	return p, nil
}

func plain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// taken lists headers that already have a meaning.
var taken = []string{"Authorization", "Cookie", "Host", "Origin", "Forwarded", forwardedFor, "Content-Type", "Content-Length", "Connection", "Dpop"}

const forwardedFor = "X-Forwarded-For"

// maxRoles is the largest number of roles from a proxy.
const maxRoles = 100

// Proxy is the Way of callers named by a proxy. The proxy must remove these headers from clients'
// requests. Only its address proves that it is the proxy.
type Proxy struct {
	user, tenant, roles string // headers; may be empty
	headers             []string
	from                []netip.Prefix
}

// Names reports whether the proxy names the caller.
func (p *Proxy) Names() bool { return p != nil && p.user != "" }

// Present implements Way.
func (p *Proxy) Present(c *gateway.Credentials) bool {
	return slices.ContainsFunc(p.headers, func(name string) bool { return len(c.Header[name]) > 0 })
}

// Authenticate implements Way.
func (p *Proxy) Authenticate(_ context.Context, c *gateway.Credentials) (gateway.Principal, error) {
	if !p.trusted(c.Address) {
		return gateway.Principal{}, fault.New(fault.InvalidRequest, "only the proxy of this edge may send the header %s, but this request comes from another address", p.user)
	}
	who := gateway.Principal{Credential: "proxy"}
	var roles string
	for name, to := range map[string]*string{p.user: &who.Name, p.tenant: &who.Tenant, p.roles: &roles} {
		values := c.Header[name]
		if name == "" || len(values) == 0 {
			continue
		}
		// A proxy that appends to a client's header makes a second value, or a list.
		if len(values) > 1 || name != p.roles && strings.Contains(values[0], ",") {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s has more than one value", name)
		}
		*to = strings.TrimSpace(values[0])
		if *to != "" && name != p.roles && CheckName(*to) != nil {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s does not contain a valid name", name)
		}
	}
	if who.Name == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "the proxy of this edge does not name the caller")
	}
	for role := range strings.SplitSeq(roles, ",") {
		if role = strings.TrimSpace(role); role == "" {
			continue
		}
		if len(who.Roles) == maxRoles || CheckName(role) != nil {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s has more than %d roles, or one that is not a valid name", p.roles, maxRoles)
		}
		who.Roles = append(who.Roles, role)
	}
	return who, nil
}

// Client returns the address of a client: the connection's, or the one that proxies
// report in X-Forwarded-For. There each proxy appends the address that it saw, so the
// last one that is not a proxy's counts; the client may have written everything before
// it.
func (p *Proxy) Client(c *gateway.Credentials) string {
	at := c.Address
	if !p.trusted(at) {
		return at
	}
	said := strings.Split(strings.Join(c.Header[forwardedFor], ","), ",")
	for _, one := range slices.Backward(said) {
		address, err := parseAddress(strings.TrimSpace(one))
		if err != nil {
			return at
		}
		if at = address.String(); !p.trusts(address) {
			return at
		}
	}
	return at
}

// trusted reports whether an address is a proxy's.
func (p *Proxy) trusted(address string) bool {
	a, err := parseAddress(address)
	return err == nil && p.trusts(a)
}

func (p *Proxy) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.from, func(n netip.Prefix) bool { return n.Contains(a) })
}

// parseAddress reads an address, with a port or without.
func parseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		var with netip.AddrPort
		if with, err = netip.ParseAddrPort(s); err == nil {
			a = with.Addr()
		}
	}
	return a.Unmap().WithZone(""), err
}
