package audit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// questions answers what edges ask on behalf of people.
type questions struct {
	store   trail.Store
	witness *witness
	log     *slog.Logger
	away    func() error                  // why the writer has stopped
	dead    atomic.Pointer[auditlog.Dead] // nil until the service is on the bus
}

// run is for service.Service.Go.
func (q *questions) run(_ context.Context, conn *bus.Conn) error {
	q.dead.Store(auditlog.DeadOf(conn))
	return nil
}

// Page is the answer to list, tail and show.
type Page struct {
	Events []trail.Row `json:"events"`
	// Next is the cursor of the next page, empty at the end; for tail, the position to ask from.
	Next string `json:"next,omitzero"`
	// More is set by tail if further events are there already.
	More bool `json:"more,omitzero"`
	// NotShown is how many events of other tenants the trail has, for a reader of one
	// tenant. It does not depend on the filter, which could reveal more than this number.
	NotShown int64 `json:"notShown,omitzero"`
}

// State is the answer to state, which edges ask.
type State struct {
	// Stopped is why nothing is written although the database answers; empty if events
	// are written.
	Stopped string `json:"stopped,omitzero"`
}

func (q *questions) state() (s State) {
	if err := q.away(); err != nil {
		s.Stopped = err.Error()
	}
	return s
}

// answer is a service.HandleFunc that answers list, show, verify and redeliver. Parameters
// are an object of strings.
func (q *questions) answer(ctx context.Context, _ *service.Call, name string, params []byte) (any, error) {
	p := map[string]string{}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, fault.New(fault.InvalidParams, "the parameters are not an object of strings").Because(err)
		}
	}
	answer, err := q.find(ctx, name, p)
	if err != nil {
		return nil, q.told(err)
	}
	return answer, nil
}

// told is an error in the form that the caller receives.
func (q *questions) told(err error) error {
	switch {
	case errors.As(err, new(*fault.Error)):
		return err
	case errors.Is(err, trail.ErrFilter):
		return service.Errorf("%s", err.Error())
	case errors.As(err, new(*trail.Stray)):
		return fault.New(fault.Conflict, "%s", err.Error()).Because(err)
	}
	q.log.Error("the audit database does not answer", "error", err)
	return fault.New(fault.Overloaded, "the audit database does not answer; try again shortly").Because(err)
}

func (q *questions) find(ctx context.Context, name string, p map[string]string) (any, error) {
	switch name {
	case "list":
		counts := p[countOthers] != ""
		delete(p, countOthers)
		f, err := trail.ParseFilter(p, time.Now())
		if err != nil {
			return nil, err
		}
		rows, next, err := q.store.List(ctx, f)
		page := Page{Events: notNil(rows), Next: next}
		if err == nil && counts && f.Tenant != "" {
			page.NotShown, err = q.store.Others(ctx, strings.TrimPrefix(f.Tenant, trail.NoTenant))
		}
		return page, err
	case "tail":
		after := p["after"]
		delete(p, "after")
		f, err := trail.ParseFilter(p, time.Now())
		if err != nil {
			return nil, err
		}
		rows, next, more, err := trail.Follow(ctx, q.store, f, after)
		return Page{Events: notNil(rows), Next: next, More: more}, err
	case "show":
		of := tenantOf(p)
		if p["id"] == "" || len(p) != 1 {
			return nil, fault.New(fault.InvalidParams, "show takes id (of an event or a call) and optionally tenant")
		}
		rows, err := q.store.Show(ctx, p["id"])
		rows = slices.DeleteFunc(rows, func(r trail.Row) bool { return !of(r.Tenant) })
		if err == nil && len(rows) == 0 {
			return nil, fault.New(fault.UnknownResource, "the trail has no event or call of this id")
		}
		return Page{Events: rows}, err
	case "verify":
		of := tenantOf(p)
		if len(p) != 0 {
			return nil, fault.New(fault.InvalidParams, "verify has no parameter but tenant")
		}
		trusted, heads, err := q.witness.all(ctx)
		if err != nil {
			return nil, err
		}
		return trail.Verify(ctx, q.store, trusted, heads, of)
	case "state":
		return q.state(), nil
	case "redeliver":
		return q.redeliver(ctx, p)
	}
	return nil, fault.New(fault.MethodNotFound, "the audit service answers list, tail, show, verify and redeliver")
}

// countOthers is the parameter by which the door of an edge asks for Page.NotShown.
const countOthers = "others"

// tenantOf removes the parameter tenant, which has the form of trail.Filter, and returns
// a function that reports which tenants it admits.
func tenantOf(p map[string]string) func(tenant string) bool {
	only, ok := p["tenant"]
	delete(p, "tenant")
	if only == trail.NoTenant {
		only = ""
	}
	return func(tenant string) bool { return !ok || tenant == only }
}

func notNil(rows []trail.Row) []trail.Row {
	if rows == nil {
		return []trail.Row{}
	}
	return rows
}
