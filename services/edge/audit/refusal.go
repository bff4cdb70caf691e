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
	// refusalsAlike is how many refusals of a kind are recorded in full in a window, and
	// refusalsFull how many of an account.
	refusalsAlike = 8
	refusalsFull  = 256
	// refusalsKept bounds the kinds, of all accounts together, that are counted
	// separately.
	refusalsKept = 4096
)

// refusals are the calls that were refused lately, and the questions of followers of the trail.
// The first few of a kind are recorded in full, the others are counted: a flood of them costs one
// event per kind and window.
type refusals struct {
	seed maphash.Seed

	mu    sync.Mutex
	kinds map[refusalKind]*refusalCount
	full  map[string]int // events of an account
	since time.Time
}

// refusalKind is a kind of refusals: the account, and why its calls were refused. Without
// a door it stands for all other kinds of that account, and without an account for all
// other accounts.
type refusalKind struct {
	account, outcome, door, method string
	name                           uint64
}

// refusalCount counts the calls of a kind that have no event of their own.
type refusalCount struct {
	account     string
	event       *auditv1.AuditEvent // of them
	full, n     uint32
	first, last time.Time
}

// inFull is how many calls such as this one are recorded in full in a window; zero means all.
// A refused call counts only if nothing of it was recorded before, so no event waits for an end.
func inFull(r gateway.Record) uint32 {
	switch {
	case r.Err == nil && r.Method == gateway.AuditQuery && r.Name == "tail":
		return 1 // a follower of the trail asks once a second
	case r.Err != nil && r.Executed() == fault.No && !r.Begun && r.Approval == nil && r.Err.Reason != fault.ApprovalRequired:
		return refusalsAlike
	}
	return 0
}

// alike reports whether a call is one of many that ended alike, and so has no event of its own.
func (t *Trail) alike(account string, r gateway.Record) bool {
	most := inFull(r)
	if most == 0 {
		return false
	}
	return !t.refusals.count(account, r, most, func() *auditv1.AuditEvent {
		e := t.brief(r.View)
		e.Outcome, e.Executed = r.Outcome, string(r.Executed())
		return e
	})
}

// count counts a call, and reports whether it is one of the most calls of its kind that have an
// event of their own.
func (r *refusals) count(account string, record gateway.Record, most uint32, describe func() *auditv1.AuditEvent) bool {
	kind := refusalKind{account, record.Outcome, record.Door, record.Method[:min(len(record.Method), maxWord)], maphash.String(r.seed, record.Name)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds, r.full, r.since = map[refusalKind]*refusalCount{}, map[string]int{}, time.Now()
	}
	k := r.kinds[kind]
	room := r.full[account] < refusalsFull && len(r.kinds) < refusalsKept
	switch {
	case k != nil && k.full < most && room:
	case k != nil:
		k.more()
		return false
	case room:
		k = r.add(kind, account, describe())
	default:
		// The number of names is unlimited, so they count as one kind. So do callers.
		kind.door, kind.method, kind.name = "", "", 0
		if r.kinds[kind] == nil && len(r.kinds) >= refusalsKept {
			kind.account, account = "", ""
		}
		if k = r.kinds[kind]; k == nil {
			e := describe()
			e.Call, e.Door, e.Method, e.Name, e.Service = bus.NewCallID(), "", "", "", ""
			if kind.account == "" {
				e.Tenant, e.Principal, e.Program = "", "", false
			}
			k = r.add(kind, account, e)
		}
		k.more()
		return false
	}
	k.full++
	r.full[account]++
	return true
}

func (r *refusals) add(kind refusalKind, account string, e *auditv1.AuditEvent) *refusalCount {
	e.Id = e.Call + "-3"
	k := &refusalCount{account: account, event: e}
	r.kinds[kind] = k
	return k
}

func (k *refusalCount) more() {
	k.last = time.Now()
	if k.n++; k.n == 1 {
		k.first = k.last
	}
}

// due returns the events for the counted calls, marshalled, once the window is over or at
// the end, and begins the next window.
func (r *refusals) due(window time.Duration, end bool) (items []item) {
	r.mu.Lock()
	if r.kinds == nil || !end && time.Since(r.since) < window {
		r.mu.Unlock()
		return nil
	}
	kinds := r.kinds
	r.kinds, r.full = nil, nil
	r.mu.Unlock()
	for _, k := range kinds {
		if k.n == 0 {
			continue
		}
		k.event.Repeated = k.n
		k.event.TimeUnixNano, k.event.DurationNano = uint64(k.first.UnixNano()), uint64(k.last.Sub(k.first))
		if data, err := proto.Marshal(k.event); err == nil {
			items = append(items, item{k.account, data})
		}
	}
	return items
}
