package gateway

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// maxDepth is how many calls of services may stand between a client and a
// tool, so that tools which call each other come to an end.
const maxDepth = 4

// maxDelegation is the longest a call may use its caller's rights, whatever its
// tool says it takes. A task has them for keyLife.
const maxDelegation = time.Hour

// delegations are sealed for this, and for nothing else.
var delegations = []byte("delegation")

// delegate lets the service of a call make others on the caller's behalf until
// a time, and clockSlack. Nil for tools that call no others.
func (s *Sealer) delegate(ctx context.Context, c *Call, until time.Time) ([]byte, error) {
	if c.Target.Tool == nil || !c.Target.Tool.CallsTools {
		return nil, nil
	}
	plain, err := proto.Marshal(&busv1.Delegation{
		Identity: identity(c.Principal), Service: c.Target.Service, Depth: c.depth + 1, Call: c.ID, Payer: c.payer,
		ExpiresUnixNano: uint64(until.UnixNano()),
	})
	if err != nil {
		return nil, err
	}
	// Whole seconds are sealed beside it: the exact time is inside.
	return s.seal(ctx, delegations, plain, until.Add(time.Second))
}

// accept takes over who a service calls for.
func (s *Sealer) accept(ctx context.Context, c *Call) error {
	refused := fault.New(fault.Forbidden, "no call is under way on whose behalf this one could be made")
	plain, err := s.open(ctx, delegations, c.Delegation)
	if errors.Is(err, errNotOurs) {
		return refused
	}
	if err != nil {
		return err
	}
	d := &busv1.Delegation{}
	if err := proto.Unmarshal(plain, d); err != nil || s.now().Add(-clockSlack).UnixNano() > int64(d.ExpiresUnixNano) {
		return refused
	}
	if d.Depth > maxDepth {
		return fault.New(fault.Forbidden, "tools that call tools are %d deep here, and at most %d are let", d.Depth, maxDepth)
	}
	c.Principal = Principal{Name: d.Identity.GetPrincipal(), Tenant: d.Identity.GetTenant(), Scopes: d.Identity.GetScopes()}
	c.payer = d.Payer
	c.Client, c.depth, c.Parent = &busv1.Client{Name: d.Service, Capabilities: []byte("{}")}, d.Depth, d.Call
	return nil
}

func identity(p Principal) *busv1.Identity {
	return &busv1.Identity{Principal: p.Name, Tenant: p.Tenant, Scopes: p.Scopes}
}
