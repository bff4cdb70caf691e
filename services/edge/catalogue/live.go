package catalogue

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
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
	log         *slog.Logger
	conn        *bus.Conn
	registry    *registry.Registry
	owners      *owners
	definitions *definitions
	stopUpdates []func()
	now         atomic.Pointer[Snapshot]

	// services has a value when the registry has changed, names when the owners
	// of names may have.
	services, names chan struct{}
	// back has one when the bus is back after it was away.
	back  chan struct{}
	quit  context.Context
	stop  context.CancelFunc
	done  chan struct{}
	loops sync.WaitGroup // besides run

	// tell is told of changed definitions; nil for nobody. settled is the snapshot of
	// which there is nothing more to tell.
	tell    atomic.Pointer[func(Redefined)]
	settled *Snapshot

	mu          sync.Mutex
	memory      memory
	subscribers map[*Subscription]struct{}
	changed     chan struct{}
}

// reloadNames is how often the owners of names are read again, for those that
// were not heard of.
const reloadNames = 30 * time.Second

// Config says how a catalogue is made.
type Config struct {
	Logger *slog.Logger
	// Grants returns what services may do now; nil, or nil of it, is everything.
	Grants func() Grants
	// Look is for who only wants to know: nothing is written. Otherwise names are
	// kept for the services that are the first to offer them.
	Look bool
}

// Watch is Open without grants.
func Watch(ctx context.Context, conn *bus.Conn, log *slog.Logger) (*Live, error) {
	return Open(ctx, conn, Config{Logger: log})
}

// Look is Watch for who only wants to know: it writes nothing.
func Look(ctx context.Context, conn *bus.Conn, log *slog.Logger) (*Live, error) {
	return Open(ctx, conn, Config{Logger: log, Look: true})
}

// Open returns the catalogue once it holds everything now on the bus.
func Open(ctx context.Context, conn *bus.Conn, cfg Config) (_ *Live, err error) {
	l := &Live{
		log: cfg.Logger, conn: conn, subscribers: map[*Subscription]struct{}{}, changed: make(chan struct{}),
		services: make(chan struct{}, 1), names: make(chan struct{}, 1), back: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.now.Store(&Snapshot{digest: digest(&[kinds]list{}), views: &views{}})
	l.quit, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			close(l.done)
			l.Close()
		}
	}()
	l.owners, l.definitions = newOwners(ctx, conn, cfg), newDefinitions(conn, cfg.Logger)
	for _, listen := range []func() (func(), error){
		func() (func(), error) { return edges.OnUpdated(conn, l.updated) },
		func() (func(), error) { return edges.OnNamesAssigned(conn, func() { wake(l.names) }) },
		func() (func(), error) { return conn.OnReconnect(func() { wake(l.names); wake(l.back) }), nil },
	} {
		stop, err := listen()
		if err != nil {
			return nil, err
		}
		l.stopUpdates = append(l.stopUpdates, stop)
	}
	if l.registry, err = registry.Watch(ctx, conn, func([]registry.Service) { wake(l.services) }); err != nil {
		return nil, err
	}
	l.update()
	l.loops.Go(l.hearMissed)
	go l.run()
	return l, nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close stops following.
func (l *Live) Close() {
	for _, stop := range l.stopUpdates {
		stop()
	}
	if l.registry != nil {
		l.registry.Close()
	}
	l.stop()
	<-l.done
	l.loops.Wait()
}

// run makes the catalogue again at each change. Names are claimed beside that:
// what a single service offers does not wait for it.
func (l *Live) run() {
	defer close(l.done)
	tick := time.NewTicker(reloadNames)
	defer tick.Stop()
	// claimed brings the end of a round of claims; nil between rounds.
	var claimed chan func()
	note := time.NewTicker(noteTime)
	defer note.Stop()
	// noted brings the end of a round of telling; nil between rounds.
	var noted chan func(func(Redefined))
	for changed := true; ; {
		if claimed == nil && changed {
			claimed = l.claim()
		}
		changed = true
		select {
		case <-l.quit.Done():
			if claimed != nil {
				<-claimed
			}
			if noted != nil {
				<-noted
			}
			return
		case note := <-claimed:
			note()
			claimed = nil
		case <-l.services:
		case <-l.names:
			l.owners.reload(l.quit)
			l.reloadAccepted()
		case <-tick.C:
			changed := l.owners.reload(l.quit)
			changed = l.reloadAccepted() || changed
			l.owners.renew(l.quit, l.registry.Services())
			if !changed {
				continue
			}
		case <-note.C:
			changed = false
			if noted == nil {
				noted = l.note()
			}
			continue
		case end := <-noted:
			end(*l.tell.Load())
			changed, noted = false, nil
			continue
		}
		l.update()
	}
}

// claim begins a round of claims, if there are any to make. What it sends is to
// be run.
func (l *Live) claim() chan func() {
	wants := l.owners.wants(l.registry.Services())
	if len(wants) == 0 {
		return nil
	}
	claimed := make(chan func(), 1)
	go func() {
		claims, err := l.owners.claim(l.quit, wants)
		claimed <- func() { l.owners.made(claims, err) }
	}()
	return claimed
}

// Now returns the present snapshot; of the zero Live, which follows no bus, an empty one.
func (l *Live) Now() *Snapshot {
	if now := l.now.Load(); now != nil {
		return now
	}
	return &Snapshot{views: &views{}}
}

// Services returns the services on the bus, by name.
func (l *Live) Services() []registry.Service { return l.now.Load().services }

// Current reports whether what a snapshot does not have is not on the bus: see
// registry.Registry. Of the zero Live, which follows no bus, it is true.
func (l *Live) Current() bool { return l.registry == nil || l.registry.Current() }

// Overflows are those of the registry.
func (l *Live) Overflows() []registry.Overflow { return l.registry.Overflows() }

// ClockOffset is that of the registry.
func (l *Live) ClockOffset() (offset time.Duration, known bool) { return l.registry.ClockOffset() }

// Await waits until every service named is on the bus.
func (l *Live) Await(ctx context.Context, names ...string) error {
	return l.await(ctx, func(here []registry.Service) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(here, func(s registry.Service) bool { return s.Name == name })
		})
	})
}

// AwaitInstances waits until the instances of services are known, by service.
func (l *Live) AwaitInstances(ctx context.Context, instances map[string][]string) error {
	return l.await(ctx, func(here []registry.Service) bool {
		known := map[string][]string{}
		for _, s := range here {
			known[s.Name] = s.Instances
		}
		for service, all := range instances {
			if slices.ContainsFunc(all, func(one string) bool { return !slices.Contains(known[service], one) }) {
				return false
			}
		}
		return true
	})
}

// await waits until the services on the bus are as they should be.
func (l *Live) await(ctx context.Context, ok func([]registry.Service) bool) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if ok(l.Services()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update makes the catalogue of what there is now.
func (l *Live) update() {
	services := l.registry.Services()
	before := l.now.Load()
	var after *Snapshot
	var pinned map[string]string
	if l.pinned() {
		if l.definitions.accepted == nil {
			l.definitions.reload(l.quit)
		}
		pinned = l.definitions.pinned()
	}
	after, l.memory = build(services, l.owners.assign(services), pinned, l.memory)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Store(after)
	for _, p := range fresh(before.problems, after.problems) {
		l.log.Warn("catalogue conflict", "problem", p)
	}
	for _, p := range fresh(before.ungranted, after.ungranted) {
		l.log.Info("a service is not granted what it says it does", "grant", p)
	}
	if len(before.ungranted) == 0 && len(after.ungranted) > 0 {
		l.log.Warn("the policy does not grant services all that they say they do; busbar services --access FILE lists what they lack, and so does the log at level info")
	}
	for _, q := range fresh(before.Waiting(), after.Waiting()) {
		l.log.Warn("a tool waits to be accepted", "tool", q)
	}
	for _, m := range fresh(before.mended, after.mended) {
		l.log.Warn("a schema is true or false where clients want an object; they are given one", "where", m)
	}
	l.noteTools(before, after)
	close(l.changed)
	l.changed = make(chan struct{})
	c := difference(before, after)
	if c == 0 {
		return
	}
	for s := range l.subscribers {
		if theirs := c & seenChange(before, after, s.audience.View()); theirs != 0 {
			s.tell(theirs)
		}
	}
}

// seenChange says which lists differ for who sees that much of them.
func seenChange(before, after *Snapshot, view View) Change {
	if view == nil {
		return ToolsChanged | PromptsChanged | ResourcesChanged
	}
	return after.For(view).since(before.For(view).digest)
}

// fresh returns what was not there before.
func fresh(before, now []string) (all []string) {
	known := make(map[string]bool, len(before))
	for _, s := range before {
		known[s] = true
	}
	for _, s := range now {
		if !known[s] {
			all = append(all, s)
		}
	}
	return all
}

// noteTools logs what an operator may want to have agreed to: that a tool is
// another service's, or that its service says otherwise how it is to be treated.
func (l *Live) noteTools(before, after *Snapshot) {
	for name, now := range after.tools {
		old, known := before.tools[name]
		switch {
		case !known:
		case old.Service != now.Service:
			l.log.Warn("a tool is another service's now", "tool", name, "service", now.Service, "before", old.Service)
		case old.Tool.said() != now.Tool.said():
			l.log.Warn("a service says otherwise how calls of its tool are to be treated", "tool", name, "service", now.Service,
				"now", now.Tool.said(), "before", old.Tool.said())
		}
	}
}

func difference(a, b *Snapshot) Change {
	var c Change
	for kind, change := range map[Kind]Change{Tools: ToolsChanged, Prompts: PromptsChanged, Resources: ResourcesChanged, Templates: ResourcesChanged, Skills: ResourcesChanged} {
		if !slices.EqualFunc(a.lists[kind].items, b.lists[kind].items, func(x, y item) bool { return bytes.Equal(x.json, y.json) }) {
			c |= change
		}
	}
	return c
}

// relisted says which lists of a tenant have changed with an update.
func (s *Snapshot) relisted(u bus.Updated, tenant string) (c Change) {
	if u.Listed && s.isLister(Resources, tenant, u.Service) && s.shows(Resources, u.URI, u.Service) {
		c |= ResourcesChanged
	}
	if u.Prompts && s.isLister(Prompts, tenant, u.Service) {
		c |= PromptsChanged
	}
	return c
}

// updated hears that a service says what has changed of its own. Of another's it has
// nothing to say.
func (l *Live) updated(u bus.Updated) {
	now := l.Now()
	reads := now.reads(u.Service, u.URI)
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.subscribers {
		tenant := s.audience.Tenant()
		if !concerns(u, tenant) {
			continue
		}
		seen := now.For(s.audience.View())
		if c := seen.relisted(u, tenant); c != 0 {
			s.tell(c)
		}
		if reads && s.wants != nil && s.wants(u.URI) && seen.shows(Resources, u.URI, u.Service) {
			s.tellUpdated(u.URI)
		}
	}
}
