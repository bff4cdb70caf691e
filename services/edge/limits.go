package edge

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/trail"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// limitsPath is the path that shows how much of the caller's limits is left.
const limitsPath = "/access/limits"

// limitsLeft answers how much of the caller's limits is left. The operator of the edge
// may ask for another principal: ?as=anna&tenant=acme, with the token of the audit trail.
func (e *Edge) limitsLeft(guard door.Guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		var body []byte
		who, err := e.limited(guard, r)
		if err == nil {
			left := []limit.Left{}
			if e.limits != nil {
				left, err = e.leftOf(r.Context(), who)
			}
			if err == nil {
				body, err = json.Marshal(map[string]any{"principal": who.Name, "tenant": who.Tenant, "limits": left}, json.Deterministic(true))
			}
		}
		if err != nil {
			door.RefuseProblem(w, err)
			return
		}
		door.Answer(w, http.StatusOK, "application/json", append(body, '\n'))
	}
}

// maxLooks is how many requests one edge answers concurrently: each asks all other edges.
const maxLooks = 4

// leftOf is how much of a principal's limits is left.
func (e *Edge) leftOf(ctx context.Context, who gateway.Principal) ([]limit.Left, error) {
	select {
	case e.looks <- struct{}{}:
		defer func() { <-e.looks }()
		return e.limits.Left(ctx, who), nil
	default:
		busy := fault.New(fault.Overloaded, "this edge is asked for limits %d times at this moment; try again shortly", maxLooks)
		busy.RetryAfter = time.Second
		return nil, busy
	}
}

// limited is the principal whose limits a request asks for.
func (e *Edge) limited(guard door.Guard, r *http.Request) (who gateway.Principal, err error) {
	if err := guard.Check(r); err != nil {
		return who, err
	}
	if as := r.URL.Query(); as.Has("as") {
		if !trail.Operator(r, e.cfg.Audit.Token) {
			return who, fault.New(fault.Forbidden, "the limits of others are read on the edge's own machine, with the token of the edge's data directory in the header "+trail.Header)
		}
		return gateway.Principal{Name: as.Get("as"), Tenant: as.Get("tenant")}, nil
	}
	c, err := e.gateway.Admit(r.Context(), "rest", door.Credentials(r))
	if err != nil {
		return who, err
	}
	if err := e.gateway.Enter(r.Context(), &gateway.Call{Door: "rest", Method: gateway.MethodLimits, Credentials: c}); err != nil {
		return who, err
	}
	return e.gateway.Authenticate(r.Context(), c)
}
