package audit

import (
	"hash/maphash"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// refusalWindow is how long calls that are refused alike are one event.
	refusalWindow = time.Minute
	// refusalKinds bounds the kinds of refusals of one payer that have an event of
	// their own in a window, refusalsKept those of all payers.
	refusalKinds = 16
	refusalsKept = 4096
)

// refusals are the calls that were refused lately. The first of a kind is
// recorded in full, the others are counted: a flood of them costs an event for
// each kind and window.
type refusals struct {
	seed maphash.Seed

	mu    sync.Mutex
	kinds map[refusalKind]*refusalCount
	of    map[string]int // kinds of a payer
	since time.Time
}

// refusalKind is a kind: whose calls, and why they were refused. Without a method it
// is every other kind of that payer, and without a payer that of all others.
type refusalKind struct {
	payer, outcome, method string
	name                   uint64
}

// refusalCount counts the calls of a kind after the first.
type refusalCount struct {
	payer       string
	event       *auditv1.AuditEvent // of them
	n           uint32
	first, last time.Time
}

// refusedEarly reports whether a call was refused before anything of it was
// recorded, and so that nothing waits for it.
func refusedEarly(r gateway.Record) bool {
	return r.Err != nil && r.Err.Executed == fault.No && !r.Begun && r.Call.Approval == nil && r.Err.Reason != fault.ApprovalRequired
}

// count notes a refused call, and reports whether it has an event of its own.
func (r *refusals) count(payer string, record gateway.Record, describe func() *auditv1.AuditEvent) bool {
	c := record.Call
	kind := refusalKind{payer, record.Outcome, c.Method, maphash.String(r.seed, c.Name)}
	if len(kind.method) > maxWord {
		kind.method = kind.method[:maxWord]
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds, r.of, r.since = map[refusalKind]*refusalCount{}, map[string]int{}, now
	}
	if k := r.kinds[kind]; k != nil {
		k.n, k.last = k.n+1, now
		return false
	}
	own := r.of[payer] < refusalKinds && len(r.kinds) < refusalsKept
	e := describe()
	if !own {
		kind.method, kind.name = "", 0
		e.Method, e.Name, e.Service = "", "", ""
		if len(r.kinds) >= refusalsKept && r.kinds[kind] == nil {
			kind.payer, payer = "", ""
			e.Tenant, e.Principal, e.Door = "", "", ""
		}
		if k := r.kinds[kind]; k != nil {
			k.n, k.last = k.n+1, now
			return false
		}
		e.Call = bus.NewCallID()
	}
	e.Id = e.Call + "-3"
	k := &refusalCount{payer: payer, event: e, first: now, last: now}
	if !own {
		k.n = 1
	}
	r.kinds[kind] = k
	r.of[payer]++
	return own
}

// due returns the events of what was counted, marshalled, once the window is
// over or at the end, and begins the next one.
func (r *refusals) due(window time.Duration, end bool) (items []item) {
	r.mu.Lock()
	if r.kinds == nil || !end && time.Since(r.since) < window {
		r.mu.Unlock()
		return nil
	}
	kinds := r.kinds
	r.kinds, r.of = nil, nil
	r.mu.Unlock()
	for _, k := range kinds {
		if k.n == 0 {
			continue
		}
		k.event.Repeated = k.n
		k.event.TimeUnixNano, k.event.DurationNano = uint64(k.first.UnixNano()), uint64(k.last.Sub(k.first))
		if data, err := proto.Marshal(k.event); err == nil {
			items = append(items, item{k.payer, data})
		}
	}
	return items
}
