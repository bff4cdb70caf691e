package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Credentials are what a door knows of who calls.
type Credentials struct {
	// Bearer is an OAuth 2.1 access token.
	Bearer string
	// Address is that of the client's connection, without its port; empty for a
	// client of this machine, over stdio. It proves nothing.
	Address string
}

// digest stands for the token on the bus, which tokens never enter. Nil without
// one.
func (c Credentials) digest() []byte {
	if c.Bearer == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(c.Bearer))
	return sum[:]
}

// Principal is who calls.
type Principal struct {
	Name   string
	Tenant string
	Scopes []string
}

// Anonymous is the principal of an edge without authentication.
var Anonymous = Principal{Name: "anonymous"}

// ID names a principal among those of all tenants.
func (p Principal) ID() string { return strconv.Itoa(len(p.Tenant)) + ":" + p.Tenant + p.Name }

// TenantOf is the tenant of a principal's ID; empty for any other text.
func TenantOf(id string) string {
	size, rest, _ := strings.Cut(id, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return ""
	}
	return rest[:n]
}

// Payer names the party that a client's use of shared room is counted for: its
// principal, or while that is anonymous the address of its client. A call that a
// service makes counts for the payer of the call that the service carries out.
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

// Authenticator establishes who calls.
type Authenticator interface {
	// Authenticate returns the principal of the credentials, or a *fault.Error
	// with reason Unauthenticated.
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
}

// everybody is anonymous.
type everybody struct{}

func (everybody) Authenticate(context.Context, Credentials) (Principal, error) { return Anonymous, nil }

// authenticate finds out who calls: the principal of the credentials, of the
// delegation of a service, or whom the door knows.
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
		return r.accept(ctx, cfg.Sealer)
	case r.Who != nil:
		r.Principal, err = r.Who()
	default:
		r.Principal, err = cfg.Authenticator.Authenticate(ctx, r.Credentials)
	}
	if err == nil {
		r.Payer = Payer(r.Principal, r.Credentials)
	}
	return err
}

// Authenticate says who is behind credentials, for what is bound to a principal
// besides calls.
func (g *Gateway) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.cfg.Authenticator.Authenticate(ctx, c)
	if err != nil {
		return p, fault.From(err)
	}
	return p, nil
}

// Authorizer decides who may call what.
type Authorizer interface {
	// Authorize returns nil, or a *fault.Error with reason Forbidden.
	Authorize(ctx context.Context, v View) error
}

func authorize(cfg *Config) link {
	if cfg.Authorizer == nil {
		return nil
	}
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if err := cfg.Authorizer.Authorize(ctx, r.View); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

const (
	// maxDepth is how many calls of services may stand between a client and a
	// tool, so that tools which call each other come to an end.
	maxDepth = 4
	// maxDelegation is the longest a call may use its caller's rights, whatever its
	// tool says it takes. A task has them for store.KeyLife.
	maxDelegation = time.Hour
)

// delegations are sealed for this, and for nothing else.
var delegations = []byte("delegation")

// delegate lets the service of a call make others on the caller's behalf until
// a time, and store.ClockSlack. Nil for tools that call no others.
func (r *run) delegate(ctx context.Context, s *store.Sealer, until time.Time) ([]byte, error) {
	if r.Target.Tool == nil || !r.Target.Tool.CallsTools {
		return nil, nil
	}
	plain, err := proto.Marshal(&busv1.Delegation{
		Identity: identity(r.Principal), Service: r.Target.Service, Depth: r.depth + 1, Call: r.ID, Payer: r.Payer,
		ExpiresUnixNano: uint64(until.UnixNano()),
	})
	if err != nil {
		return nil, err
	}
	// What is sealed ends at a whole second: the exact time is inside.
	return s.Seal(ctx, delegations, plain, until.Add(time.Second))
}

// accept takes over who a service calls for.
func (r *run) accept(ctx context.Context, s *store.Sealer) error {
	refused := fault.New(fault.Forbidden, "no call is under way on whose behalf this one could be made")
	plain, err := s.Open(ctx, delegations, r.Delegation)
	if errors.Is(err, store.ErrNotOurs) {
		return refused
	}
	if err != nil {
		return err
	}
	d := &busv1.Delegation{}
	if err := proto.Unmarshal(plain, d); err != nil || s.Now().Add(-store.ClockSlack).UnixNano() > int64(d.ExpiresUnixNano) {
		return refused
	}
	if d.Depth > maxDepth {
		return fault.New(fault.Forbidden, "tools that call tools are %d deep here, and at most %d are let", d.Depth, maxDepth)
	}
	r.Principal = Principal{Name: d.Identity.GetPrincipal(), Tenant: d.Identity.GetTenant(), Scopes: d.Identity.GetScopes()}
	r.Payer, r.Parent, r.depth = d.Payer, d.Call, d.Depth
	r.Client = &busv1.Client{Name: d.Service, Capabilities: []byte("{}")}
	return nil
}

func identity(p Principal) *busv1.Identity {
	return &busv1.Identity{Principal: p.Name, Tenant: p.Tenant, Scopes: p.Scopes}
}
