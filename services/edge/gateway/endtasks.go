package gateway

import (
	"context"
	"errors"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// doorOfPolicy is the door of actions that an edge takes because of the policy.
const doorOfPolicy = "policy"

// The reasons for ending a task that its client did not cancel. The client is not told: it may no
// longer know of the task.
const (
	whyDenied  = "the policy no longer allows the tool"
	whyRevoked = "the credential that the task was begun with was revoked"
)

// EndTasks ends the running tasks that have lost their right to run: those whose principal may no
// longer use the tool, and those whose credentials were revoked, as revoked reports. Each is
// recorded once, whichever edge ends it.
func (g *Gateway) EndTasks(ctx context.Context, revoked func(ctx context.Context, credential string) (bool, error)) error {
	if g.cfg.Tasks == nil {
		return nil
	}
	type begun struct {
		id, credential string
		who            Principal
	}
	var denied []begun
	by := map[string][]begun{} // tasks, by the credential that they were begun with
	failures := []error{g.cfg.Tasks.Running(ctx, func(rec *busv1.TaskRecord) {
		one := begun{rec.Request.Id, rec.Credential, principalOf(rec.Request.Identity)}
		if !mayUse(g.cfg.Access, one.who, rec) {
			denied = append(denied, one)
		} else if one.credential != "" {
			by[one.credential] = append(by[one.credential], one)
		}
	})}
	end := func(all []begun, why string) {
		for _, one := range all {
			failures = append(failures, g.endTask(ctx, one.id, one.who, why))
		}
	}
	end(denied, whyDenied)
	for credential, all := range by {
		gone, err := revoked(ctx, credential)
		if failures = append(failures, err); gone {
			end(all, whyRevoked)
		}
	}
	return errors.Join(failures...)
}

func (g *Gateway) endTask(ctx context.Context, id string, who Principal, why string) error {
	switch ended, err := g.cfg.Tasks.End(ctx, id, why); {
	case errors.Is(err, bus.ErrNoKey) || err == nil && !ended:
		return nil // it was over
	case err != nil:
		return err
	}
	g.cfg.Logger.Warn("a task is ended", "task", id, "principal", who.Name, "tenant", who.Tenant, "why", why)
	r := newRun(&Call{Door: doorOfPolicy, Method: mcp.MethodTasksCancel, Name: id}, nil)
	r.Principal = who
	return record(ctx, g.cfg.Auditor, r, &Answer{Result: &busv1.Result{}}, nil)
}
