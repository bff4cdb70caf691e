package bus

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
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
}

// Registry is an edge's view of what is on the bus. It listens to the
// announcements themselves, which arrive the moment they are made and even
// while JetStream cannot store them, and reads the bucket at start, after a
// reconnect and every few minutes for those it did not hear. Instances that
// fall silent are dropped after BeatTTL; silence while the bus is away does
// not count.
type Registry struct {
	conn     *Conn
	onChange func([]Service)
	subs     []*nats.Subscription
	stopHook func()
	events   chan registryEvent
	// quit ends with Close, and what run asks of the bus with it.
	quit context.Context
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	services []Service
	// wanted are the keys of catalogues that could not be read.
	wanted map[string]bool
}

// registryEvent is an announcement, a withdrawal when ann is nil, or a catalogue.
type registryEvent struct {
	key     string
	ann     *busv1.Announcement
	relist  bool
	renewed bool
	// catalogue is what key holds in the other bucket.
	catalogue *busv1.Catalogue
}

type instance struct {
	ann  *busv1.Announcement
	seen time.Time
}

const relistEvery = 5 * time.Minute

// WatchRegistry returns once everything in the registry is known, or, where the
// bucket cannot be read, once that is clear: announcements tell of everybody
// within BeatEvery. onChange is called, one call at a time, with every later
// state whose services differ in name, version, catalogue or number of
// instances; services are sorted by name.
func WatchRegistry(ctx context.Context, conn *Conn, onChange func([]Service)) (_ *Registry, err error) {
	r := &Registry{
		conn: conn, onChange: onChange, wanted: map[string]bool{},
		events: make(chan registryEvent, 256), done: make(chan struct{}),
	}
	r.quit, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			r.stop()
			r.unsubscribe()
		}
	}()
	for subject, heard := range map[string]nats.MsgHandler{
		"$KV." + RegistryBucket + ".>": r.heard, "$KV." + CatalogueBucket + ".>": r.heardCatalogue,
	} {
		sub, err := conn.nc.Subscribe(subject, heard)
		if err != nil {
			return nil, publishFault(err)
		}
		r.subs = append(r.subs, sub)
	}
	if err := conn.Flush(ctx); err != nil {
		return nil, err
	}
	view := &registryView{registry: r, instances: map[string]instance{}, catalogues: map[string]*busv1.Catalogue{}, again: map[string]time.Time{}}
	if err := view.listAtStart(ctx); err != nil {
		return nil, err
	}
	view.settle(ctx)
	r.stopHook = conn.OnReconnect(func() { r.push(registryEvent{relist: true, renewed: true}) })
	go r.run(view)
	return r, nil
}

// Services returns the present state.
func (r *Registry) Services() []Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.services
}

// Close stops watching.
func (r *Registry) Close() {
	r.stopHook()
	r.unsubscribe()
	r.stop()
	<-r.done
}

func (r *Registry) unsubscribe() {
	for _, sub := range r.subs {
		_ = sub.Unsubscribe()
	}
}

func (r *Registry) heard(msg *nats.Msg) {
	if ev, ok := parseRegistry(msg.Subject, msg.Header, msg.Data); ok {
		r.conn.heardBeat(ev.key, ev.ann)
		r.push(ev)
	}
}

func (r *Registry) push(ev registryEvent) {
	select {
	case r.events <- ev:
	case <-r.quit.Done():
	}
}

// parseRegistry reads one write to the bucket. Writes that do not say what
// their key says are ignored: a service may write under its own name only.
func parseRegistry(subject string, header nats.Header, data []byte) (registryEvent, bool) {
	key := strings.TrimPrefix(subject, "$KV."+RegistryBucket+".")
	if isDeletion(header) {
		return registryEvent{key: key}, true
	}
	ann := &busv1.Announcement{}
	if err := proto.Unmarshal(data, ann); err != nil || key != registryKey(ann.Service, ann.Instance) || ValidName(ann.Service) != nil {
		return registryEvent{}, false
	}
	return registryEvent{key: key, ann: ann}, true
}

func (r *Registry) run(view *registryView) {
	defer close(r.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	listed := time.Now()
	for {
		relist := false
		select {
		case <-r.quit.Done():
			return
		case ev := <-r.events:
			if ev.renewed {
				view.touch()
			}
			relist = ev.relist
			if !ev.relist {
				view.apply(ev)
			}
		case <-tick.C:
			if r.conn.Connected() {
				view.expire()
			} else {
				view.touch()
			}
			relist = time.Since(listed) > relistEvery
		}
		ctx, cancel := context.WithTimeout(r.quit, 2*time.Second)
		if relist {
			listed = time.Now()
			if err := view.list(ctx); err != nil && r.quit.Err() == nil {
				r.conn.log.Warn("registry not read; announcements still count", "error", err)
			}
		}
		if view.settle(ctx) && r.quit.Err() == nil {
			r.onChange(r.Services())
		}
		cancel()
	}
}

// registryView is the state behind a Registry, used by one goroutine.
type registryView struct {
	registry   *Registry
	instances  map[string]instance
	catalogues map[string]*busv1.Catalogue
	// again is when a catalogue that could not be read is looked for again.
	again map[string]time.Time
	dirty bool
}

func (v *registryView) apply(ev registryEvent) {
	if ev.catalogue != nil {
		v.catalogues[ev.key] = ev.catalogue
		v.dirty = true
		return
	}
	old, known := v.instances[ev.key]
	if known && ev.ann != nil {
		v.registry.conn.members.announced(ev.ann.Service, ev.ann.Instance)
	}
	if ev.ann == nil {
		delete(v.instances, ev.key)
		v.dirty = v.dirty || known
		return
	}
	v.instances[ev.key] = instance{ann: ev.ann, seen: time.Now()}
	v.dirty = v.dirty || !known || !sameSaid(old.ann, ev.ann)
}

// sameSaid compares announcements, but for when they were made.
func sameSaid(a, b *busv1.Announcement) bool {
	if (a.SentUnixNano == 0) != (b.SentUnixNano == 0) {
		return false
	}
	b = proto.CloneOf(b)
	b.SentUnixNano = a.SentUnixNano
	return proto.Equal(a, b)
}

func (v *registryView) expire() {
	for key, in := range v.instances {
		if time.Since(in.seen) > BeatTTL {
			delete(v.instances, key)
			v.dirty = true
		}
	}
}

func (v *registryView) touch() {
	for key, in := range v.instances {
		in.seen = time.Now()
		v.instances[key] = in
	}
}

// listAtStart is list for an edge that starts while a part of the bus is away:
// a request that nobody answers is made again, since a cluster takes a moment to
// agree, and then the announcements have to do.
func (v *registryView) listAtStart(ctx context.Context) (err error) {
	for attempt := range 3 {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = v.list(one)
		cancel()
		if err == nil || !isAway(err) {
			return err
		}
		select {
		case <-time.After(time.Duration(attempt+1) * 100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	v.registry.conn.log.Warn("the bucket of the registry cannot be read; services are known as they announce themselves", "within", BeatEvery, "error", err)
	return nil
}

// list adds what the bucket holds.
func (v *registryView) list(ctx context.Context) error {
	return v.registry.conn.lastOfEach(ctx, "KV_"+RegistryBucket, func(msg jetstream.Msg) {
		if ev, ok := parseRegistry(msg.Subject(), msg.Headers(), msg.Data()); ok && ev.ann != nil {
			v.apply(ev)
		}
	})
}
