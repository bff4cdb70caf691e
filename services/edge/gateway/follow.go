package gateway

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Follow continues the stream of a call that an edge made before, after a position; see
// edges.Caller.Follow. The call passed the chain when it was made. Every edge that tells a client
// how the call ended records that as the end of that call. A response that an edge sent is
// recorded by that edge alone.
func (g *Gateway) Follow(ctx context.Context, c *Call, after edges.Position, onFrame OnFrame, served func() bool) (*Answer, error) {
	r := newRun(c, onFrame)
	r.begun = true
	err := r.authenticate(ctx, &g.cfg)
	if err != nil {
		return nil, fault.From(err).Ran(fault.Unknown) // the call was made by then
	}
	if r.Target, err = target(g.cfg.Catalogue.Now(), r.Principal.Tenant, c); err != nil && r.Method == mcp.MethodToolsCall {
		r.Target.Tool = &catalogue.Tool{} // it is gone, and may have had an effect
	}
	frame, err := g.cfg.Caller.Follow(ctx, r.Stream, after, r.onFrame, served)
	if call := r.Stream.Call(); call != "" {
		r.ID = call
	}
	if err != nil {
		return nil, record(ctx, g.cfg.Auditor, r, nil, err)
	}
	answer := answerOf(frame)
	answer.Tool = r.Target.Tool
	if answer.Sent != nil {
		return answer, nil
	}
	if asked := answer.InputRequired; asked != nil {
		switch {
		case r.Stream.AskedByEdge():
			r.consent = &consent{}
			if err := json.Unmarshal(asked.RequestState, r.consent); err != nil {
				return nil, fault.From(err)
			}
			asked.RequestState = nil
		case demand(g.cfg.Access, r.View).Needed:
			// The service asks only in a call that a person has approved.
			r.consent = r.newConsent(&Approval{By: r.Principal, Door: r.Door})
		}
	}
	if err := record(ctx, g.cfg.Auditor, r, answer, nil); err != nil {
		return nil, err
	}
	return answer, r.sealState(ctx, g.cfg.Sealer, answer)
}
