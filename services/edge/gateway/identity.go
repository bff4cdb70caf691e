package gateway

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Credentials are what a door knows about the caller, and about the caller's way to see the
// catalogue.
type Credentials struct {
	// Bearer is the token of the Authorization header with the scheme Bearer.
	Bearer string
	// Address is the address of the client's connection, without its port; empty for a client of
	// this machine, over stdio. It proves nothing.
	Address string
	// Client is the client's own address, if the connection comes from a proxy that reports it;
	// empty if it is Address. Admit sets it.
	Client string
	// Header has the headers of the request by canonical names, or the metadata of gRPC; nil over
	// stdio. Nobody changes it.
	Header http.Header
	// Method, Host and Path belong to the HTTP request, for proofs that are bound to one (RFC
	// 9449). Secure says that it came encrypted.
	Method, Host, Path string
	Secure             bool
	// Certificate is the client's certificate, which the listener has verified; nil for none.
	Certificate *x509.Certificate

	// Toolset names the toolset through which the client sees the catalogue; empty for none. It
	// proves nothing.
	Toolset string
	// Search: the client wants search tools in place of the list of tools.
	Search bool

	// known is the principal that was found for these credentials before; see Admit.
	known *known
	// again: see Again.
	again bool
}

// Principal is the party behind a call.
type Principal struct {
	Name   string
	Tenant string
	Scopes []string
	// Roles are the roles that the credentials bring. The policy may add more.
	Roles []string
	// Program says that the principal is a program acting for itself, not for a person.
	Program bool
	// Expires is when the credentials expire; zero means never.
	Expires time.Time
	// Credential names the credential, for people. It is never a secret.
	Credential string
}

// Again reports whether these credentials were valid before and are checked again, like the
// credentials of an open stream. Such a check does not use up a proof that is valid once.
func (c Credentials) Again() bool { return c.again }

// Challenge says how to show better credentials: values of WWW-Authenticate (RFC 9110, 11.6.1).
// An authenticator wraps it in the fault of its refusal, and doors with such a header write it.
type Challenge []string

// Error implements error.
func (c Challenge) Error() string { return strings.Join(c, ", ") }

// Anonymous is the principal of an edge without authentication.
var Anonymous = Principal{Name: "anonymous"}

// ID is the principal's name, unique among all tenants.
func (p Principal) ID() string { return strconv.Itoa(len(p.Tenant)) + ":" + p.Tenant + p.Name }

// TenantOf is the tenant in a principal's ID; empty for any other text.
func TenantOf(id string) string {
	tenant, _ := quota.Tenant(id)
	return tenant
}

// NameOf is the name in a principal's ID.
func NameOf(id string) string {
	_, rest, _ := strings.Cut(id, ":")
	return strings.TrimPrefix(rest, TenantOf(id))
}

// Account names the party that pays for a client's use of shared room: its principal or, for an
// anonymous one, the address of the client. A call that a service makes counts for the account of
// the call that the service carries out.
func Account(p Principal, c Credentials) string {
	if p.Name != Anonymous.Name || p.Tenant != Anonymous.Tenant {
		return p.ID()
	}
	// IDs of principals begin with a digit.
	return "@" + network(cmp.Or(c.Client, c.Address))
}

// network is the part of an address that one party has for itself: an IPv6 client can take any
// address of its /64.
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

// Authenticator identifies callers.
type Authenticator interface {
	// Authenticate returns the principal of the credentials, or a *fault.Error with reason
	// Unauthenticated.
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
}

// everybody makes every caller anonymous.
type everybody struct{}

func (everybody) Authenticate(context.Context, Credentials) (Principal, error) { return Anonymous, nil }

// authenticate identifies the caller: by the credentials, by the delegation of a service, or by
// the door that knows the caller.
func authenticate(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			err := r.authenticate(ctx, cfg)
			if err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

func (r *run) authenticate(ctx context.Context, cfg *Config) (err error) {
	switch {
	case r.Delegation != nil:
		if err = r.accept(ctx, cfg.Sealer); err == nil && !cfg.Access.Calls(r.Service, r.Name) {
			err = fault.New(fault.Forbidden, "service %s may not call tool %s: services.%s.calls of the policy file does not grant it", r.Service, fault.Clip(r.Name), r.Service)
		}
		return err
	case r.Who != nil:
		r.Principal, err = r.Who()
	default:
		r.Principal, err = cfg.who(ctx, r.Credentials)
	}
	if err == nil {
		r.Account = Account(r.Principal, r.Credentials)
	}
	return err
}

// known is the principal that was found for credentials.
type known struct {
	Principal
	// until is when the credentials are checked again. endings is how many credentials had ended
	// before their time when these were checked.
	until   time.Time
	endings int64
}

// know returns the credentials with the principal that was found for them.
func (cfg *Config) know(c Credentials, p Principal, endings int64) Credentials {
	now := time.Now()
	c.known = &known{p, now.Add(lookAgain), endings}
	if !p.Expires.IsZero() && p.Expires.Before(c.known.until) {
		c.known.until = p.Expires
	}
	return c
}

// who returns the principal of credentials.
func (cfg *Config) who(ctx context.Context, c Credentials) (Principal, error) {
	if k := c.known; k != nil && k.endings == cfg.endings.Load() && time.Now().Before(k.until) {
		return k.Principal, nil
	}
	c.again = c.again || c.known != nil
	return cfg.Authenticator.Authenticate(ctx, c)
}

const (
	// maxDepth is how many calls of services may stand between a client and a tool, so that tools
	// which call each other come to an end.
	//limit:call depth of tools that call tools | `forbidden`
	maxDepth = 4
	// maxDelegation is the longest that a call may use its caller's rights, whatever time limit
	// its tool has. A task has them for store.KeyLife.
	//limit:time a tool that calls tools has its caller's rights for at most
	maxDelegation = time.Hour
)

// delegations are sealed for this, and for nothing else.
var delegations = []byte("delegation")

// delegate lets the service of a call make others on the caller's behalf until a time, and
// store.ClockSlack. It is nil for tools that call no others.
func (r *run) delegate(ctx context.Context, s *store.Sealer, until time.Time) ([]byte, error) {
	if r.Target.Tool == nil || !r.Target.Tool.CallsTools {
		return nil, nil
	}
	plain, err := proto.Marshal(&busv1.Delegation{
		Identity: identity(r.Principal), Service: r.Target.Service, Depth: r.depth + 1, Call: r.ID, Payer: r.Account,
		ExpiresUnixNano: uint64(until.UnixNano()), Door: r.words(),
	})
	if err != nil {
		return nil, err
	}
	// The sealer ends at a whole second, and the exact time is inside.
	return s.Seal(ctx, delegations, plain, until.Add(time.Second))
}

// accept takes over the caller for which a service calls.
func (r *run) accept(ctx context.Context, s *store.Sealer) error {
	refused := fault.New(fault.Forbidden, "no call is under way on whose behalf this one could be made")
	r.Client = &busv1.Client{Name: r.Service, Capabilities: []byte("{}")}
	plain, err := s.Open(ctx, delegations, r.Delegation)
	if errors.Is(err, store.ErrNotOurs) {
		return refused
	}
	if err != nil {
		return err
	}
	d := &busv1.Delegation{}
	if err := proto.Unmarshal(plain, d); err != nil || d.Service != r.Service || s.Now().Add(-store.ClockSlack).UnixNano() > int64(d.ExpiresUnixNano) {
		return refused
	}
	if d.Depth > maxDepth {
		return fault.New(fault.Forbidden, "tool calls are nested %d deep; at most %d are allowed", d.Depth, maxDepth)
	}
	r.Principal = principalOf(d.Identity)
	r.Account, r.Parent, r.depth, r.origin = d.Payer, d.Call, d.Depth, d.Door
	return nil
}

// words is the door at which the client called; errors use the words of that door. It is empty
// for the doors of MCP.
func (r *run) words() string {
	switch {
	case r.Delegation != nil:
		return r.origin
	case r.Protocol != "":
		return forms.MCP
	}
	return r.Door
}

// onward adds advice to the failure of two kinds of calls: those that a service makes, because
// the service may show the error to its client as a part of its result, and those through a
// toolset, because its lists differ.
func (r *run) onward(err error) error {
	set := r.Credentials.Toolset
	if r.Delegation == nil && set == "" {
		return err
	}
	f := fault.From(err)
	return f.Toward(forms.NextIn(f, r.words(), set))
}

func identity(p Principal) *busv1.Identity {
	return &busv1.Identity{Principal: p.Name, Tenant: p.Tenant, Scopes: p.Scopes, Roles: p.Roles, Program: p.Program}
}

// principalOf is the principal that an edge put into an identity.
func principalOf(i *busv1.Identity) Principal {
	return Principal{Name: i.GetPrincipal(), Tenant: i.GetTenant(), Scopes: i.GetScopes(), Roles: i.GetRoles(), Program: i.GetProgram()}
}
