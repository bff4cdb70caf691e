package registry

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// Service is a service in the registry.
type Service struct {
	Name string
	// Version is the version of the latest started instance, Catalogue the latest changed
	// catalogue of that version's instances.
	Version   string
	Digest    string
	Catalogue *busv1.Catalogue
	// Instances are the names of the running instances, sorted.
	Instances []string
	// Releases are the catalogues that instances announce: first the one above, then the
	// others, newest first, maxReleases at most. There is one, unless instances of several
	// releases run at once.
	Releases []Release
}

// Release is one catalogue of a service, and the instances that announce it.
type Release struct {
	Version   string
	Digest    string
	Catalogue *busv1.Catalogue
	// Instances are sorted.
	Instances []string
	// Others are the versions of those instances besides Version, sorted: a new version may
	// have the same catalogue as an old one.
	Others []string
}

// Registry is an edge's view of the services on the bus. It listens to the announcements themselves, which
// arrive at once and even while JetStream cannot store them. It reads the bucket at start, after a
// reconnect and every few minutes, to find instances that it did not hear. Each announcement is entered in
// a roster when it arrives, so none waits for another; the list of services is made from the roster once
// for all changes since the last time. An instance that is silent is dropped after BeatTTL; silence does
// not count while the bus does not reach this process.
type Registry struct {
	conn     *bus.Conn
	onChange func([]Service)
	roster   *roster
	hearing  hearing
	clock    clock
	// catalogues are what instances offer.
	catalogues *catalogues
	// stops end the subscriptions.
	stops []func()
	// changed has a value if the roster or a catalogue may differ from the last settled state;
	// joined if the connection is to another server, or was restored; back if the bus reaches
	// this process again.
	changed, joined, back chan struct{}
	// quit ends with Close, and ends the requests of run.
	quit context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	services []Service
}

const (
	relistEvery = 5 * time.Minute
	// minPause and maxPause bound the time between two lists of services, which is ten times
	// the duration of the last one. So a change after a quiet time takes effect at once, and a
	// flood of changes uses a bounded part of a processor.
	minPause, maxPause = 10 * time.Millisecond, 250 * time.Millisecond
)

// Watch returns once everything in the registry is known. If the bucket cannot be read, it returns when
// that is clear: announcements then name every instance within BeatEvery. onChange is called, one call at
// a time, with every later state whose services differ in name, version, catalogue or number of instances;
// services are ordered by name.
func Watch(ctx context.Context, conn *bus.Conn, onChange func([]Service)) (_ *Registry, err error) {
	r := &Registry{
		conn: conn, onChange: onChange, roster: newRoster(), catalogues: newCatalogues(conn),
		changed: make(chan struct{}, 1), joined: make(chan struct{}, 1), back: make(chan struct{}, 1),
	}
	r.quit, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			r.stop()
			r.leave()
		}
	}()
	heard, err := conn.NATS().Subscribe(subject.Key(bus.RegistryBucket, ">"), r.heard)
	if err != nil {
		return nil, wire.NotSent(err)
	}
	r.stops = append(r.stops, func() { _ = heard.Unsubscribe() })
	stop, err := conn.Subscribe(subject.Key(bus.CatalogueBucket, ">"), func(msg *nats.Msg) {
		if r.catalogues.heard(msg) {
			wake(r.changed)
		}
	})
	if err != nil {
		return nil, err
	}
	r.stops = append(r.stops, stop)
	if err := conn.Flush(ctx); err != nil {
		return nil, err
	}
	r.hearing.caughtUp(time.Now())
	v := &view{registry: r}
	if err := v.listAtStart(ctx); err != nil {
		return nil, err
	}
	v.settle(ctx, readAtStart)
	r.stops = append(r.stops, conn.OnReconnect(func() { r.hearing.deaf(); wake(r.joined) }))
	r.done.Go(func() { r.listen(heard) })
	r.done.Go(func() { r.run(v) })
	return r, nil
}

// Services returns the current state.
func (r *Registry) Services() []Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.services
}

// Current reports whether everything on the bus is known, so that an unknown name does not exist. It
// returns false while the bus does not reach this process, and after that until the bucket is read or
// every instance has had time to announce itself.
func (r *Registry) Current() bool { return r.conn.Connected() && r.hearing.current(time.Now()) }

// Overflows returns the ignored announcements by service: of instances beyond MaxInstances, and of services
// beyond MaxServices.
func (r *Registry) Overflows() []Overflow { return r.roster.overflows() }

// Close stops watching.
func (r *Registry) Close() {
	r.leave()
	r.stop()
	r.done.Wait()
}

func (r *Registry) leave() {
	for _, stop := range r.stops {
		stop()
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// heard processes one write to the bucket. A service may write only under its own name.
func (r *Registry) heard(msg *nats.Msg) {
	service, instance, ok := strings.Cut(subject.KeyOf(bus.RegistryBucket, msg.Subject), ".")
	if !ok || bus.ValidName(service) != nil {
		return
	}
	if wire.Deleted(msg.Header) {
		if r.roster.leave(service, instance) {
			wake(r.changed)
		}
		return
	}
	if len(msg.Data) > MaxAnnouncement || !r.roster.admits(service, instance) { // not worth reading
		return
	}
	ann, ok := parse(service, instance, msg.Data)
	if !ok {
		return
	}
	now := time.Now()
	said := said{ann: ann, at: now}
	if ann.SentUnixNano != 0 && r.hearing.prompt(now) {
		said.ahead, said.timed = r.conn.Now().Sub(time.Unix(0, int64(ann.SentUnixNano))), true
	}
	known, changed := r.roster.enter(said)
	if known {
		r.conn.InstanceAnnounced(service, instance)
	}
	if changed {
		wake(r.changed)
	}
}

// parse reads an announcement, which must agree with its key.
func parse(service, instance string, data []byte) (*busv1.Announcement, bool) {
	ann := &busv1.Announcement{}
	if err := proto.Unmarshal(data, ann); err != nil || ann.Service != service || ann.Instance != instance || bus.ValidName(service) != nil {
		return nil, false
	}
	return ann, true
}

// listen pings the bus each second. Messages published before arrive before the answer, so after an
// answer, an instance without a message was really silent.
func (r *Registry) listen(heard *nats.Subscription) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for lost := 0; ; {
		select {
		case <-tick.C:
		case <-r.joined:
		case <-r.quit.Done():
			return
		}
		asked := time.Now()
		r.hearing.ask(asked)
		err := r.catchUp(heard)
		dropped, _ := heard.Dropped()
		switch {
		case r.quit.Err() != nil:
			return
		case err == nil && dropped == lost:
			deaf := r.hearing.isDeaf()
			if deaf { // nothing could arrive, so nobody was silent
				r.roster.touch(asked)
			}
			r.hearing.caughtUp(asked)
			if deaf {
				wake(r.back)
			}
		case r.hearing.deaf() && r.conn.Connected():
			r.conn.Log().Warn("the bus does not answer this process; the known services stay unchanged", "error", err, "dropped", dropped)
		}
		lost = dropped
	}
}

// catchUp waits until announcements in transit have been processed.
func (r *Registry) catchUp(heard *nats.Subscription) error {
	ctx, cancel := context.WithTimeout(r.quit, answerTime)
	defer cancel()
	if err := r.conn.NATS().FlushWithContext(ctx); err != nil {
		return err
	}
	delivered, err := heard.Delivered()
	if err != nil {
		return err
	}
	waiting, _, err := heard.Pending()
	if err != nil {
		return err
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for due := delivered + int64(waiting); delivered < due; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if delivered, err = heard.Delivered(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) run(v *view) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	listed := time.Now()
	for {
		relist, changed := false, true
		select {
		case <-r.quit.Done():
			return
		case <-r.changed:
		case <-r.back:
			relist = true
		case <-tick.C:
			changed = r.roster.expire(r.hearing.until().Add(-BeatTTL)) || v.unread
			relist = time.Since(listed) > relistEvery
			r.tellFloods()
			r.clock.compare(r.conn.Log(), r.roster.ahead(), r.hearing.prompt(time.Now()))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(r.quit, 2*time.Second)
		if relist {
			listed = time.Now()
			if err := v.list(ctx); err != nil && r.quit.Err() == nil {
				r.conn.Log().Warn("the registry could not be read; announcements still count", "error", err)
			}
		}
		if (changed || relist) && v.settle(ctx, readTime) && r.quit.Err() == nil {
			r.onChange(r.Services())
		}
		cancel()
		select {
		case <-time.After(min(max(10*time.Since(began), minPause), maxPause)):
		case <-r.quit.Done():
			return
		}
	}
}

// tellFloods logs the services with too many instances.
func (r *Registry) tellFloods() {
	began, ended := r.roster.tell(time.Now())
	for _, f := range began {
		if f.Service == "" {
			r.conn.Log().Warn("more services announce themselves than an edge keeps; the services known first stay, the others are ignored",
				"kept", MaxServices, "ignored", f.Refused, "one", f.Latest)
			continue
		}
		r.conn.Log().Warn("a service announces more instances than an edge keeps; the instances known first stay, the others are ignored",
			"service", f.Service, "kept", MaxInstances, "ignored", f.Refused)
	}
	for _, f := range ended {
		if f.Service == "" {
			r.conn.Log().Info("the number of services is within the limit again", "ignored", f.Refused)
			continue
		}
		r.conn.Log().Info("a service is within the limit of instances again", "service", f.Service, "ignored", f.Refused)
	}
}

// view is the state of the goroutine that makes the list of services.
type view struct {
	registry *Registry
	// unread is set if a catalogue could not be read.
	unread bool
}

// listAtStart is list for an edge that starts during a partial outage. It repeats a request without an
// answer, because a cluster needs a moment to agree. After that it relies on announcements.
func (v *view) listAtStart(ctx context.Context) (err error) {
	for attempt := range 3 {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = v.list(one)
		cancel()
		if err == nil || !wire.NoAnswer(err) {
			return err
		}
		select {
		case <-time.After(time.Duration(attempt+1) * 100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	v.registry.conn.Log().Warn("the bucket of the registry cannot be read; services become known when they announce themselves", "within", BeatEvery, "error", err)
	return nil
}

// list adds the content of the bucket.
func (v *view) list(ctx context.Context) error {
	r, now := v.registry, time.Now()
	err := r.conn.Bucket(bus.RegistryBucket).All(ctx, func(at string, value []byte) {
		service, instance, _ := strings.Cut(at, ".")
		if ann, ok := parse(service, instance, value); ok && r.roster.admits(service, instance) {
			r.roster.enter(said{ann: ann, at: now, listed: true})
		}
	})
	if err == nil {
		r.hearing.listed(now)
	}
	return err
}
