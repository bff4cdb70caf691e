package catalogue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/definition"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

const (
	// noteTime is how often the edge looks for changed definitions.
	noteTime = time.Second
	// noteAgain is how soon an edge reports another change of the same tool: a tool that changes
	// all the time is reported that often.
	noteAgain = time.Minute
	// notesAtOnce bounds the tools of one service that are reported in one round.
	notesAtOnce = 100
	// MaxSeen and MaxSeenBytes bound the definitions that are kept for one service, to report
	// their changes. New tools take the room of tools that the service no longer offers. Changes
	// of tools without room are not reported.
	MaxSeen      = 1000
	MaxSeenBytes = 4 << 20
)

// Redefined reports that the definition of a tool has changed.
type Redefined struct {
	// Before is the last definition, maybe of another service, and After the present one.
	Before, After definition.Definition
	Differences   []definition.Difference
}

// definitions has two tasks, each with a bucket. If the policy pins tools, it knows the accepted
// digests (reload, pinned), so that update offers tools only in their accepted form. And it
// reports every change of a definition, once for all edges: each second, look compares the
// definitions of the newest releases with those that were seen last. Several edges notice a
// change; the edge whose write the bucket takes reports it (see). Reading and writing the bucket
// takes time, so such a round runs in a goroutine of its own and returns a function, its end,
// that Live.run calls. Only run uses the fields, and they need no lock.
type definitions struct {
	store *store.Definitions
	log   *slog.Logger
	// accepted are the accepted digests by tool; nil until they were read.
	accepted map[string]string
	// seen is the last definition that any edge has seen, by tool; nil until it was read.
	seen map[string]seen
	// told is when this edge last reported a tool.
	told map[string]time.Time
	// full are the services whose lack of room has been logged.
	full map[string]bool
}

// seen is a definition in the bucket.
type seen struct {
	service, digest string
	bytes           int
}

func newDefinitions(conn *bus.Conn, log *slog.Logger) *definitions {
	return &definitions{store: store.NewDefinitions(conn), log: log, told: map[string]time.Time{}, full: map[string]bool{}}
}

// reload reads the accepted digests again, and reports whether they have changed. If the bucket
// is suddenly empty, it was lost: the known digests stay.
func (d *definitions) reload(ctx context.Context) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	now := map[string]string{}
	if err := d.store.Accepted(ctx, func(one definition.Definition) { now[one.Tool] = one.Digest }); err != nil {
		d.log.Warn("the definitions of tools that are accepted cannot be read; those known count", "error", err)
		return false
	}
	if len(now) == 0 && len(d.accepted) > 0 {
		d.log.Error("the bus has no accepted definitions of tools any more; those known count until this edge ends: accept them again")
		return false
	}
	changed = d.accepted == nil || !maps.Equal(d.accepted, now)
	d.accepted = now
	return changed
}

// pinned has the accepted digests. It is not nil even if they are unknown, so that no tool is
// offered then.
func (d *definitions) pinned() map[string]string {
	if d.accepted == nil {
		return map[string]string{}
	}
	return d.accepted
}

// round is the beginning of a round of reporting changes, which may take a while. It returns the
// end of the round.
type round func() (end func(tell func(Redefined)))

// look begins a round; nil means there is nothing to do. The first round reads the definitions
// that were seen. settled reports whether there will be nothing to do until services change a
// definition.
func (d *definitions) look(ctx context.Context, newest map[string]definition.Definition, now time.Time) (_ round, settled bool) {
	if d.seen == nil {
		return func() func(func(Redefined)) {
			all, err := d.all(ctx)
			return func(func(Redefined)) {
				if err == nil {
					d.seen = all
				}
			}
		}, false
	}
	wants, gone, settled := d.changed(newest, now)
	if len(wants) == 0 {
		return nil, settled
	}
	return func() func(func(Redefined)) { return d.see(ctx, wants, gone, now) }, false
}

// changed returns the definitions that differ from those that were seen, as far as there is room
// for them, and the tools that make room.
func (d *definitions) changed(newest map[string]definition.Definition, now time.Time) (wants []definition.Definition, gone []string, settled bool) {
	maps.DeleteFunc(d.told, func(_ string, told time.Time) bool { return now.Sub(told) >= noteAgain })
	settled = true
	count, size, at := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range d.seen {
		count[s.service]++
		size[s.service] += s.bytes
	}
	for tool, one := range newest {
		before, known := d.seen[tool]
		if before.digest == one.Digest || one.Digest == "" {
			continue
		}
		if _, told := d.told[tool]; told || at[one.Service] == notesAtOnce {
			settled = false
			continue
		}
		more := !known || before.service != one.Service
		over := func() bool {
			return more && count[one.Service] >= MaxSeen || size[one.Service]+len(one.Text) > MaxSeenBytes
		}
		for over() {
			stale, ok := d.stale(one.Service, newest, gone)
			if !ok {
				break
			}
			gone = append(gone, stale)
			count[one.Service]--
			size[one.Service] -= d.seen[stale].bytes
		}
		if over() {
			d.noRoom(one.Service)
			continue
		}
		if more {
			count[one.Service]++
		}
		size[one.Service] += len(one.Text)
		at[one.Service]++
		wants = append(wants, one)
	}
	return wants, gone, settled
}

// stale is a tool that a service no longer offers, and that is not in gone.
func (d *definitions) stale(service string, newest map[string]definition.Definition, gone []string) (string, bool) {
	for tool, s := range d.seen {
		if _, offered := newest[tool]; s.service == service && !offered && !slices.Contains(gone, tool) {
			return tool, true
		}
	}
	return "", false
}

func (d *definitions) noRoom(service string) {
	if !d.full[service] {
		d.full[service] = true
		d.log.Warn("a service has more tools than are watched for changes", "service", service, "watched", MaxSeen, "bytes", MaxSeenBytes)
	}
}

func (d *definitions) all(ctx context.Context) (map[string]seen, error) {
	all := map[string]seen{}
	err := d.store.Seen(ctx, func(one definition.Definition, bytes int) { all[one.Tool] = seen{one.Service, one.Digest, bytes} })
	return all, err
}

// see keeps definitions as seen. The function it returns notes them, and reports those that this
// edge was the first to keep.
func (d *definitions) see(ctx context.Context, wants []definition.Definition, gone []string, now time.Time) func(tell func(Redefined)) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	type kept struct {
		Redefined
		fresh bool
	}
	p := pool.NewWithResults[kept]().WithContext(ctx).WithMaxGoroutines(claimsAtOnce)
	for _, tool := range gone {
		p.Go(func(ctx context.Context) (kept, error) { return kept{}, d.store.Forget(ctx, tool) })
	}
	for _, one := range wants {
		p.Go(func(ctx context.Context) (kept, error) {
			one.Time = time.Now().UTC()
			before, fresh, err := d.store.See(ctx, one)
			return kept{Redefined{Before: before, After: one}, fresh}, err
		})
	}
	// The next round reports those that could not be kept.
	all, err := p.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Warn("what services say of their tools cannot be kept now", "error", err)
	}
	return func(tell func(Redefined)) {
		for _, tool := range gone {
			delete(d.seen, tool)
			delete(d.told, tool)
		}
		for _, k := range all {
			tool := k.After.Tool
			if tool == "" {
				continue
			}
			d.seen[tool] = seen{k.After.Service, k.After.Digest, len(k.After.Text)}
			if k.fresh && k.Before.Digest != "" {
				d.told[tool] = now
				k.Differences = definition.Compare(k.Before, k.After)
				tell(k.Redefined)
			}
		}
	}
}

// OnRedefined registers f, which is called for each tool whose definition differs from the last
// one that any edge has seen. Only one of all edges calls its f. f does not block.
func (l *Live) OnRedefined(f func(Redefined)) { l.tell.Store(&f) }

// note begins a round of reporting changes, as claim begins a round of claims.
func (l *Live) note() chan func(func(Redefined)) {
	now := l.now.Load()
	if l.tell.Load() == nil || now == l.settled {
		return nil
	}
	begin, settled := l.definitions.look(l.quit, now.newest, time.Now())
	if settled {
		l.settled = now
	}
	if begin == nil {
		return nil
	}
	noted := make(chan func(func(Redefined)), 1)
	go func() { noted <- begin() }()
	return noted
}

// pinned reports whether tools are offered only in their accepted form.
func (l *Live) pinned() bool {
	g := l.owners.grants()
	return g != nil && g.Pinned()
}

// reloadAccepted reads the accepted digests again, if tools are pinned.
func (l *Live) reloadAccepted() (changed bool) { return l.pinned() && l.definitions.reload(l.quit) }

// Accept makes a definition the accepted one of its tool, at every edge.
func Accept(ctx context.Context, conn *bus.Conn, d definition.Definition) error {
	d.Time = time.Now().UTC()
	if err := store.NewDefinitions(conn).Accept(ctx, d); err != nil {
		return err
	}
	return edges.TellNamesAssigned(ctx, conn)
}
