package catalogue

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Change says which lists differ from before.
type Change uint8

// Changes, combined with |.
const (
	ToolsChanged Change = 1 << iota
	PromptsChanged
	ResourcesChanged
)

// Live follows the registry.
type Live struct {
	log      *slog.Logger
	registry *bus.Registry
	now      atomic.Pointer[Snapshot]

	mu          sync.Mutex
	schemas     compiled
	subscribers map[*Subscription]struct{}
	changed     chan struct{}
}

// Watch returns the catalogue once it holds everything now on the bus.
func Watch(ctx context.Context, conn *bus.Conn, log *slog.Logger) (*Live, error) {
	l := &Live{log: log, subscribers: map[*Subscription]struct{}{}, changed: make(chan struct{})}
	l.now.Store(&Snapshot{})
	// An update that comes before this returns waits for it.
	l.mu.Lock()
	registry, err := bus.WatchRegistry(ctx, conn, func([]bus.Service) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.updateLocked()
	})
	defer l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.registry = registry
	l.updateLocked()
	return l, nil
}

// Close stops following.
func (l *Live) Close() { l.registry.Close() }

// Now returns the present snapshot.
func (l *Live) Now() *Snapshot { return l.now.Load() }

// Services returns the services on the bus, by name.
func (l *Live) Services() []bus.Service { return l.now.Load().services }

// Await waits until every service named is on the bus.
func (l *Live) Await(ctx context.Context, names ...string) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		here := l.Services()
		missing := slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(here, func(s bus.Service) bool { return s.Name == name })
		})
		if !missing {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Live) updateLocked() {
	before := l.now.Load()
	var after *Snapshot
	after, l.schemas = build(l.registry.Services(), l.schemas)
	l.now.Store(after)
	for _, p := range after.problems {
		if !slices.Contains(before.problems, p) {
			l.log.Warn("catalogue conflict", "problem", p)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
	if c := difference(before, after); c != 0 {
		for s := range l.subscribers {
			s.tell(c)
		}
	}
}

func difference(a, b *Snapshot) Change {
	var c Change
	for kind, change := range map[Kind]Change{Tools: ToolsChanged, Prompts: PromptsChanged, Resources: ResourcesChanged, Templates: ResourcesChanged} {
		if !slices.EqualFunc(a.lists[kind].items, b.lists[kind].items, func(x, y item) bool { return bytes.Equal(x.json, y.json) }) {
			c |= change
		}
	}
	return c
}

// Subscription hears of changes. Those that come faster than they are taken
// become one.
type Subscription struct {
	// C has a value when Take has something.
	C       chan struct{}
	pending atomic.Uint32
	live    *Live
}

// Subscribe hears of every change from now on. Close it.
func (l *Live) Subscribe() *Subscription {
	s := &Subscription{C: make(chan struct{}, 1), live: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers[s] = struct{}{}
	return s
}

// Take returns what changed since it was last called.
func (s *Subscription) Take() Change { return Change(s.pending.Swap(0)) }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	delete(s.live.subscribers, s)
}

func (s *Subscription) tell(c Change) {
	s.pending.Or(uint32(c))
	select {
	case s.C <- struct{}{}:
	default:
	}
}
