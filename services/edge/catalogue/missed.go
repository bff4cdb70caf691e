package catalogue

import (
	"context"
	"slices"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
)

// askAgain is how long after it was not reachable the bus is asked again.
const askAgain = time.Second

// hearMissed tells subscribers what services said while the bus was away, once it is
// back: what is published meanwhile reaches nobody here. Some of it may be told twice.
func (l *Live) hearMissed() {
	for {
		select {
		case <-l.quit.Done():
			return
		case <-l.back:
		}
		all, err := edges.UpdatedSince(l.quit, l.conn, l.conn.Gone(), l.updated)
		switch {
		case err != nil: // the stream may have no leader yet
			select {
			case <-time.After(askAgain):
				wake(l.back)
			case <-l.quit.Done():
			}
		case !all:
			l.log.Warn("the bus was away for so long that not all updates of resources are kept; subscribers are told that the lists have changed")
			l.ViewsChanged()
		}
	}
}

// Missed returns what changed since a snapshot had that digest, and which of
// the resources given were updated since then. Resources may be named although
// they were not: when it cannot be told any more, all of them.
func (l *Live) Missed(ctx context.Context, a Audience, digest string, then time.Time, resources []string) (Change, []string) {
	now, tenant := l.Now().For(a.View()), a.Tenant()
	if len(resources) == 0 && !now.Lists(Resources, tenant) && !now.Lists(Prompts, tenant) {
		return now.since(digest), nil
	}
	var updated []string
	changed := now.since(digest)
	all, err := edges.UpdatedSince(ctx, l.conn, then, func(u bus.Updated) {
		if !concerns(u, tenant) {
			return
		}
		changed |= now.relisted(u, tenant)
		if now.reads(u.Service, u.URI) && slices.Contains(resources, u.URI) && !slices.Contains(updated, u.URI) {
			updated = append(updated, u.URI)
		}
	})
	if err != nil {
		l.log.Warn("missed updates of resources cannot be told; naming all", "error", err)
	}
	if !all {
		updated = resources
		if now.Lists(Resources, tenant) {
			changed |= ResourcesChanged
		}
		if now.Lists(Prompts, tenant) {
			changed |= PromptsChanged
		}
	}
	return changed, updated
}
