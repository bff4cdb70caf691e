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

// ProxyFlags are the flags for a proxy in front that authenticates its users, and says
// in headers who they are. The tags are read by kong.
type ProxyFlags struct {
	Header       string   `name:"auth-proxy-header" env:"BUSBAR_AUTH_PROXY_HEADER" placeholder:"NAME" help:"Header, such as X-Forwarded-User, in which a proxy in front says who calls. It counts from --auth-proxy-from alone, and is refused from anywhere else."`
	TenantHeader string   `name:"auth-proxy-tenant-header" env:"BUSBAR_AUTH_PROXY_TENANT_HEADER" placeholder:"NAME" help:"Header in which the proxy says the caller's tenant."`
	RolesHeader  string   `name:"auth-proxy-roles-header" env:"BUSBAR_AUTH_PROXY_ROLES_HEADER" placeholder:"NAME" help:"Header in which the proxy says the caller's roles, such as X-Forwarded-Groups, comma-separated."`
	From         []string `name:"auth-proxy-from" env:"BUSBAR_AUTH_PROXY_FROM" placeholder:"NETWORK" help:"Networks of the proxies in front, such as 10.0.0.0/8. Their X-Forwarded-For says where a client is."`
}

// Proxy makes what the flags say; nil without any.
func (f ProxyFlags) Proxy() (*Proxy, error) {
	if f.Header == "" && f.TenantHeader == "" && f.RolesHeader == "" && len(f.From) == 0 {
		return nil, nil
	}
	if len(f.From) == 0 {
		return nil, errors.New("--auth-proxy-header counts from somewhere: name the networks of the proxies with --auth-proxy-from, such as 10.0.0.0/8")
	}
	if f.Header == "" && f.TenantHeader+f.RolesHeader != "" {
		return nil, errors.New("--auth-proxy-tenant-header and --auth-proxy-roles-header go with --auth-proxy-header, which says who calls")
	}
	p := &Proxy{user: http.CanonicalHeaderKey(f.Header), tenant: http.CanonicalHeaderKey(f.TenantHeader), roles: http.CanonicalHeaderKey(f.RolesHeader)}
	for _, name := range []string{p.user, p.tenant, p.roles} {
		if name == "" {
			continue
		}
		if !plain(name) || slices.Contains(taken, name) || slices.Contains(p.headers, name) {
			return nil, fmt.Errorf("--auth-proxy-header %s: choose a header of letters and hyphens that means nothing else, such as X-Forwarded-User", name)
		}
		p.headers = append(p.headers, name)
	}
	for _, text := range f.From {
		network, err := netip.ParsePrefix(text)
		if address, failed := netip.ParseAddr(text); err != nil && failed == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || network.Bits() == 0 {
			return nil, fmt.Errorf("--auth-proxy-from %s: name an address, or a network that is not everybody's, such as 10.0.0.0/8", text)
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

// taken are headers that mean something already.
var taken = []string{"Authorization", "Cookie", "Host", "Origin", "Forwarded", forwardedFor, "Content-Type", "Content-Length", "Connection", "Dpop"}

const forwardedFor = "X-Forwarded-For"

// maxRoles bounds the roles that a proxy names.
const maxRoles = 100

// Proxy is the Way of who is named by a proxy. The proxy takes these headers out of
// what clients send, and proves nothing but its address.
type Proxy struct {
	user, tenant, roles string // headers; empty for none
	headers             []string
	from                []netip.Prefix
}

// Names reports whether the proxy says who calls.
func (p *Proxy) Names() bool { return p != nil && p.user != "" }

// Shown implements Way.
func (p *Proxy) Shown(c *gateway.Credentials) bool {
	return slices.ContainsFunc(p.headers, func(name string) bool { return len(c.Header[name]) > 0 })
}

// Authenticate implements Way.
func (p *Proxy) Authenticate(_ context.Context, c *gateway.Credentials) (gateway.Principal, error) {
	if !p.is(c.Address) {
		return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s is for the proxy of this edge, and this request comes from elsewhere", p.user)
	}
	who := gateway.Principal{Credential: "proxy"}
	var roles string
	for name, to := range map[string]*string{p.user: &who.Name, p.tenant: &who.Tenant, p.roles: &roles} {
		values := c.Header[name]
		if name == "" || len(values) == 0 {
			continue
		}
		// A proxy that appends to what a client sends makes a second value, or a list.
		if len(values) > 1 || name != p.roles && strings.Contains(values[0], ",") {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s has more than one value", name)
		}
		*to = strings.TrimSpace(values[0])
		if *to != "" && name != p.roles && CheckName(*to) != nil {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s has no name in it", name)
		}
	}
	if who.Name == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "the proxy of this edge does not say who calls")
	}
	for role := range strings.SplitSeq(roles, ",") {
		if role = strings.TrimSpace(role); role == "" {
			continue
		}
		if len(who.Roles) == maxRoles || CheckName(role) != nil {
			return gateway.Principal{}, fault.New(fault.InvalidRequest, "the header %s has more than %d roles, or one that is no name", p.roles, maxRoles)
		}
		who.Roles = append(who.Roles, role)
	}
	return who, nil
}

// Client is the address of a client: that of its connection, or what the proxies say in
// X-Forwarded-For. There each adds the address that it saw, so the last one that is no
// proxy's counts; whatever is before it, the client may have written.
func (p *Proxy) Client(c *gateway.Credentials) string {
	at := c.Address
	if !p.is(at) {
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

// is reports whether an address is a proxy's.
func (p *Proxy) is(address string) bool {
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
