package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// beatEvery is how often an edge writes its heartbeat into the record.
	beatEvery = time.Second
	// lease is how long an edge keeps its share after its last heartbeat, by its own clock. It is
	// longer than JetStream takes to elect a new leader.
	//limit:share an edge keeps its share of the limits if it cannot report that it runs
	lease = 10 * time.Second
	// gone is how long the other edges wait without a heartbeat, by their own clocks, before they
	// take the share of the silent edge.
	//limit:share the other edges take over the share of an edge that has not reported
	gone = 11 * time.Second
	// tries is how often a record is written again because other edges wrote in between.
	tries = 8
)

// Store keeps the record of the edges that share the limits: one key of a bucket.
type Store interface {
	// Look returns a value and its revision, or revision 0 if there is no value. The value may be
	// stale.
	Look(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Replace writes a value in place of that revision and returns the new revision. It returns 0
	// if the key has another revision by now.
	Replace(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
}

// recordKey is the key of the record.
const recordKey = "edges"

// record is what the edges agree on. Every edge replaces it once a second, and only in place of
// the revision that it has read. So an edge with a valid lease knows every change that is older
// than its lease.
type record struct {
	View    uint64           `json:"view"`
	Members map[string]entry `json:"members"`
	// Left is when the last edge left, in milliseconds of Unix time.
	Left int64 `json:"left,omitzero"`
}

type entry struct {
	// Beat counts the writes of the edge.
	Beat uint64 `json:"beat"`
	// Seen is the latest view that the edge obeys.
	Seen uint64 `json:"seen"`
}

// membership is one edge's knowledge of the edges that share the limits. The rule that keeps
// every limit: the share of an edge grows only after all other edges are known to have reduced
// theirs. Edges that join and leave make a new view, with the next number, in the record (see
// Store). Several views can be in force at once: an older one stays until every other member has
// written that it obeys the next one. In that time an edge uses the smallest share that it has in
// any of them. An edge may use its share only within its lease, and the others remove it from the
// record only when that lease is certainly over. Start with tick, which runs every second, then
// read, which decides which views are in force.
type membership struct {
	self string
	// guest is set for an edge without a share of its own; the others need not give up any of
	// theirs.
	guest bool
	store Store
	now   func() time.Duration

	holdings atomic.Pointer[holdings]
	// until is when the lease ends.
	until atomic.Int64

	// Only the goroutine that calls tick uses the rest.

	views []view // views that some edge may still use, the oldest first
	// from is when the first of views may end, if it is the view without members.
	from  time.Duration
	beats map[string]heard
	was   bool // whether this edge was a member
	// revision is the latest known revision of the record.
	revision uint64
	// rested is how long no edge had a share before this edge joined; 0 if some edge had one.
	rested time.Duration
	wall   func() time.Time
}

// heard is the last heartbeat of an edge, and when it was read.
type heard struct {
	beat uint64
	at   time.Duration
}

func newMembership(self string, guest bool, store Store, now func() time.Duration) *membership {
	c := &membership{self: self, guest: guest, store: store, now: now, views: []view{{}}, beats: map[string]heard{}, wall: time.Now}
	c.holdings.Store(&holdings{self: self, latest: 1, periods: []period{{since: now(), views: c.views}}})
	return c
}

// leased reports whether the edge may use its share.
func (c *membership) leased(now time.Duration) bool { return c.guest || int64(now) < c.until.Load() }

// errBusy means that other edges wrote in between each time, or that the record that was read is
// stale.
var errBusy = errors.New("which edges share the limits is not known for sure")

// tick reads the record, obeys it and renews the lease.
func (c *membership) tick(ctx context.Context) error {
	for range tries {
		begin := c.now()
		value, revision, err := c.store.Look(ctx, recordKey)
		if err != nil {
			return err
		}
		if revision < c.revision && c.leased(c.now()) {
			continue // from a server that lags; or the record is lost, and then the lease ends
		}
		was := record{}
		if len(value) > 0 {
			if err := json.Unmarshal(value, &was); err != nil {
				return fmt.Errorf("read which edges share the limits: %w", err)
			}
		}
		c.revision = revision
		c.read(was, c.now())
		if c.guest {
			return nil
		}
		next, changed := c.next(was, c.now())
		if value, err = json.Marshal(next, json.Deterministic(true)); err != nil {
			return err
		}
		written, err := c.store.Replace(ctx, recordKey, value, revision)
		switch {
		case err != nil:
			return err
		case written == 0:
			continue
		}
		c.was, c.revision = true, written
		c.until.Store(int64(begin + lease))
		if !changed {
			return nil
		}
		// The others wait until this edge has written that it knows the new view.
	}
	return errBusy
}

// read takes over the views of a record: it adds a new view, and drops the older ones that no
// edge uses any more.
func (c *membership) read(r record, now time.Duration) {
	changed := false
	if _, member := r.Members[c.self]; !member && !c.guest {
		changed = c.outside(r, now)
	}
	for id, e := range r.Members {
		if h, known := c.beats[id]; !known || h.beat != e.Beat {
			c.beats[id] = heard{e.Beat, now}
		}
	}
	for id := range c.beats {
		if _, member := r.Members[id]; !member {
			delete(c.beats, id)
		}
	}
	if latest := c.views[len(c.views)-1]; r.View > latest.number {
		ids := make([]string, 0, len(r.Members))
		for id := range r.Members {
			ids = append(ids, id)
		}
		c.views, changed = append(c.views, newView(r.View, ids)), true
	}
	for len(c.views) > 1 && c.obeyed(r, c.views[1].number) && (c.views[0].number > 0 || now >= c.from) {
		c.views, changed = c.views[1:], true
	}
	switch s := c.holdings.Load(); {
	case changed && c.rested > 0 && c.views[0].number > 0:
		// Tokens count as if they had accrued while no edge had a share.
		c.holdings.Store(&holdings{c.self, s.latest + 1, []period{{now - c.rested, slices.Clone(c.views)}}})
		c.rested = 0
	case changed:
		c.holdings.Store(s.next(period{now, slices.Clone(c.views)}))
	}
}

// outside notes that the record does not have this edge: not yet, or no longer. The edge then has
// no share until all others know that it has joined.
func (c *membership) outside(r record, now time.Duration) (changed bool) {
	changed = len(c.views) > 1 || len(c.views[0].members) > 0
	c.views, c.rested = []view{{}}, 0
	switch {
	case c.was:
		// It was removed, or the record is lost. Other edges may still use the share that they
		// had by the lost record.
		c.from = now + gone
	case r.View == 0 && now >= c.from:
		c.rested = ever
	case len(r.Members) == 0 && now >= c.from:
		c.rested = min(ever, max(0, c.wall().Sub(time.UnixMilli(r.Left))))
	}
	c.was = false
	return changed
}

// ever is longer than any limit takes to recover.
const ever = 30 * 24 * time.Hour

// obeyed reports whether all other members know a view. An edge that is not a member any more has
// no lease, so it does not count.
func (c *membership) obeyed(r record, number uint64) bool {
	for id, e := range r.Members {
		if id != c.self && e.Seen < number {
			return false
		}
	}
	return true
}

// next is the record with this edge's heartbeat, and without the edges that are gone.
func (c *membership) next(r record, now time.Duration) (_ record, changed bool) {
	members := make(map[string]entry, len(r.Members)+1)
	for id, e := range r.Members {
		if id != c.self && now-c.beats[id].at > gone {
			changed = true
			continue
		}
		members[id] = e
	}
	me, member := members[c.self]
	members[c.self] = entry{me.Beat + 1, r.View}
	if changed = changed || !member; changed {
		r.View++
	}
	return record{View: r.View, Members: members}, changed
}

// leave gives the edge's share to the others.
func (c *membership) leave(ctx context.Context) error {
	c.until.Store(0)
	for range tries {
		value, revision, err := c.store.Look(ctx, recordKey)
		if err != nil || len(value) == 0 || c.guest {
			return err
		}
		r := record{}
		if err := json.Unmarshal(value, &r); err != nil {
			return err
		}
		if _, member := r.Members[c.self]; !member {
			return nil
		}
		delete(r.Members, c.self)
		r.View, r.Left = r.View+1, c.wall().UnixMilli()
		if value, err = json.Marshal(r, json.Deterministic(true)); err != nil {
			return err
		}
		if written, err := c.store.Replace(ctx, recordKey, value, revision); err != nil || written > 0 {
			return err
		}
	}
	return errBusy
}
