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

// Service is one service as the registry knows it.
type Service struct {
	Name string
	// Version is that of the instance that started last, Catalogue the one that
	// changed last among the instances of that version.
	Version   string
	Digest    string
	Catalogue *busv1.Catalogue
	// Instances are the names of those that are there, sorted.
	Instances []string
	// Releases are the catalogues that instances announce: first the one above,
	// then the others, the newest first, maxReleases at most. There is one
	// unless instances of several releases run at once.
	Releases []Release
}

// Release is one catalogue of a service, and the instances that announce it.
type Release struct {
	Version   string
	Digest    string
	Catalogue *busv1.Catalogue
	// Instances are sorted.
	Instances []string
	// Others are the versions of those instances besides Version, sorted: a new version
	// may offer what the one before offered.
	Others []string
}

// Registry is an edge's view of what is on the bus. It listens to the
// announcements themselves, which arrive the moment they are made and even
// while JetStream cannot store them, and reads the bucket at start, after a
// reconnect and every few minutes for those it did not hear. An announcement is
// entered in a roster where it is heard, so none waits for another, and the list of
// services is made of the roster once for all that came meanwhile. Instances that
// fall silent are dropped after BeatTTL; silence while the bus does not reach this
// process does not count.
type Registry struct {
	conn     *bus.Conn
	onChange func([]Service)
	roster   *roster
	hearing  hearing
	clock    clock
	// stops end what comes from the connection.
	stops []func()
	// changed has a value when the roster, or a catalogue, may differ from what was
	// settled last; joined when the connection is to another server, or to one again; back
	// when the bus reaches this process after it did not.
	changed, joined, back chan struct{}
	// quit ends with Close, and what run asks of the bus with it.
	quit context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	services []Service
	// wanted are the keys of catalogues that could not be read; arrived has those that
	// were heard since.
	wanted  map[string]bool
	arrived map[string]*busv1.Catalogue
}

const (
	relistEvery = 5 * time.Minute
	// A list of services is made again this long after the last one at the earliest: ten
	// times as long as that one took, within these bounds. So a change after a quiet time
	// counts at once, and a flood of changes takes a bounded part of a processor.
	minPause, maxPause = 10 * time.Millisecond, 250 * time.Millisecond
)

// Watch returns once everything in the registry is known, or, where the
// bucket cannot be read, once that is clear: announcements tell of everybody
// within BeatEvery. onChange is called, one call at a time, with every later
// state whose services differ in name, version, catalogue or number of
// instances; services are sorted by name.
func Watch(ctx context.Context, conn *bus.Conn, onChange func([]Service)) (_ *Registry, err error) {
	r := &Registry{
		conn: conn, onChange: onChange, roster: newRoster(), wanted: map[string]bool{}, arrived: map[string]*busv1.Catalogue{},
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
	stop, err := conn.Subscribe(subject.Key(bus.CatalogueBucket, ">"), r.heardCatalogue)
	if err != nil {
		return nil, err
	}
	r.stops = append(r.stops, stop)
	if err := conn.Flush(ctx); err != nil {
		return nil, err
	}
	r.hearing.caughtUp(time.Now())
	v := &view{registry: r, catalogues: map[string]*busv1.Catalogue{}, again: map[string]time.Time{}, warned: map[string]time.Time{}}
	if err := v.listAtStart(ctx); err != nil {
		return nil, err
	}
	v.settle(ctx)
	r.stops = append(r.stops, conn.OnReconnect(func() { r.hearing.deaf(); wake(r.joined) }))
	r.done.Go(func() { r.listen(heard) })
	r.done.Go(func() { r.run(v) })
	return r, nil
}

// Services returns the present state.
func (r *Registry) Services() []Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.services
}

// Current reports whether everything that is on the bus is known: a name that no
// service here has does not exist. While the bus does not reach this process, and after
// that until the bucket is read or every instance has had the time to announce itself,
// it may exist.
func (r *Registry) Current() bool { return r.conn.Connected() && r.hearing.current(time.Now()) }

// Floods are the announcements that found no place, by service: of instances beyond
// MaxInstances.
func (r *Registry) Floods() []Flood { return r.roster.floods() }

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

// heard enters one write to the bucket. A service may write under its own name only.
func (r *Registry) heard(msg *nats.Msg) {
	service, instance, ok := strings.Cut(subject.KeyOf(bus.RegistryBucket, msg.Subject), ".")
	if !ok {
		return
	}
	if wire.Deleted(msg.Header) {
		if r.roster.leave(service, instance) {
			wake(r.changed)
		}
		return
	}
	if len(msg.Data) > MaxAnnouncement || !r.roster.admits(service, instance) { // and is not worth reading
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

// parse reads an announcement, which has to say what its key says.
func parse(service, instance string, data []byte) (*busv1.Announcement, bool) {
	ann := &busv1.Announcement{}
	if err := proto.Unmarshal(data, ann); err != nil || ann.Service != service || ann.Instance != instance || bus.ValidName(service) != nil {
		return nil, false
	}
	return ann, true
}

// listen asks the bus each second for a sign of life. What it had published for this
// process by then comes before the answer, so that silence up to then is silence.
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
			if deaf { // nobody could be heard, so that nobody was silent
				r.roster.touch(asked)
			}
			r.hearing.caughtUp(asked)
			if deaf {
				wake(r.back)
			}
		case r.hearing.deaf() && r.conn.Connected():
			r.conn.Log().Warn("the bus does not answer this process; what is known of services stays as it is", "error", err, "dropped", dropped)
		}
		lost = dropped
	}
}

// catchUp waits until the announcements that were on their way have been entered.
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
				r.conn.Log().Warn("registry not read; announcements still count", "error", err)
			}
		}
		if (changed || relist) && v.settle(ctx) && r.quit.Err() == nil {
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

// tellFloods logs the services whose instances find no place.
func (r *Registry) tellFloods() {
	began, ended := r.roster.tell(time.Now())
	for _, f := range began {
		r.conn.Log().Warn("a service announces more instances than an edge keeps; those that were known first keep their places, the others are ignored",
			"service", f.Service, "kept", MaxInstances, "ignored", f.Refused)
	}
	for _, f := range ended {
		r.conn.Log().Info("a service announces no more instances than an edge keeps again", "service", f.Service, "ignored", f.Refused)
	}
}

// view is what belongs to the goroutine that makes the list of services.
type view struct {
	registry   *Registry
	catalogues map[string]*busv1.Catalogue
	// again is when a catalogue that could not be read is looked for again; unread says
	// that there is one.
	again  map[string]time.Time
	unread bool
	// warned is when the log last had a warning about the catalogues of a service.
	warned map[string]time.Time
}

// listAtStart is list for an edge that starts while a part of the bus is away:
// a request that nobody answers is made again, since a cluster takes a moment to
// agree, and then the announcements have to do.
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
	v.registry.conn.Log().Warn("the bucket of the registry cannot be read; services are known as they announce themselves", "within", BeatEvery, "error", err)
	return nil
}

// list adds what the bucket holds.
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
