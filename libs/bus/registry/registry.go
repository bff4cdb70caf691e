package registry

import (
	"context"
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
// reconnect and every few minutes for those it did not hear. Instances that
// fall silent are dropped after BeatTTL; silence while the bus is away does
// not count.
type Registry struct {
	conn     *bus.Conn
	onChange func([]Service)
	clocks   clocks
	// stops end what comes from the connection.
	stops  []func()
	events chan event
	// quit ends with Close, and what run asks of the bus with it.
	quit context.Context
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	services []Service
	// wanted are the keys of catalogues that could not be read.
	wanted map[string]bool
}

// event is an announcement, a withdrawal when ann is nil, or a catalogue.
type event struct {
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

// Watch returns once everything in the registry is known, or, where the
// bucket cannot be read, once that is clear: announcements tell of everybody
// within BeatEvery. onChange is called, one call at a time, with every later
// state whose services differ in name, version, catalogue or number of
// instances; services are sorted by name.
func Watch(ctx context.Context, conn *bus.Conn, onChange func([]Service)) (_ *Registry, err error) {
	r := &Registry{
		conn: conn, onChange: onChange, wanted: map[string]bool{},
		events: make(chan event, 256), done: make(chan struct{}),
	}
	r.quit, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			r.stop()
			r.leave()
		}
	}()
	for bucket, heard := range map[string]nats.MsgHandler{bus.RegistryBucket: r.heard, bus.CatalogueBucket: r.heardCatalogue} {
		stop, err := conn.Subscribe(subject.Key(bucket, ">"), heard)
		if err != nil {
			return nil, err
		}
		r.stops = append(r.stops, stop)
	}
	if err := conn.Flush(ctx); err != nil {
		return nil, err
	}
	v := &view{registry: r, instances: map[string]instance{}, catalogues: map[string]*busv1.Catalogue{}, again: map[string]time.Time{}}
	if err := v.listAtStart(ctx); err != nil {
		return nil, err
	}
	v.settle(ctx)
	r.stops = append(r.stops, conn.OnReconnect(func() { r.push(event{relist: true, renewed: true}) }))
	go r.run(v)
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
	r.leave()
	r.stop()
	<-r.done
}

func (r *Registry) leave() {
	for _, stop := range r.stops {
		stop()
	}
}

func (r *Registry) heard(msg *nats.Msg) {
	at := subject.KeyOf(bus.RegistryBucket, msg.Subject)
	ev, ok := event{key: at}, true // a withdrawal
	if !wire.Deleted(msg.Header) {
		ev, ok = parse(at, msg.Data)
	}
	if ok {
		r.clocks.heard(r.conn, ev.key, ev.ann)
		r.push(ev)
	}
}

func (r *Registry) push(ev event) {
	select {
	case r.events <- ev:
	case <-r.quit.Done():
	}
}

// parse reads one write to the bucket. Writes that do not say what their key says
// are ignored: a service may write under its own name only.
func parse(at string, data []byte) (event, bool) {
	ann := &busv1.Announcement{}
	if err := proto.Unmarshal(data, ann); err != nil || at != key(ann.Service, ann.Instance) || bus.ValidName(ann.Service) != nil {
		return event{}, false
	}
	return event{key: at, ann: ann}, true
}

func (r *Registry) run(v *view) {
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
				v.touch()
			}
			relist = ev.relist
			if !ev.relist {
				v.apply(ev)
			}
		case <-tick.C:
			if r.conn.Connected() {
				v.expire()
			} else {
				v.touch()
			}
			relist = time.Since(listed) > relistEvery
		}
		ctx, cancel := context.WithTimeout(r.quit, 2*time.Second)
		if relist {
			listed = time.Now()
			if err := v.list(ctx); err != nil && r.quit.Err() == nil {
				r.conn.Log().Warn("registry not read; announcements still count", "error", err)
			}
		}
		if v.settle(ctx) && r.quit.Err() == nil {
			r.onChange(r.Services())
		}
		cancel()
	}
}

// view is the state behind a Registry, used by one goroutine.
type view struct {
	registry   *Registry
	instances  map[string]instance
	catalogues map[string]*busv1.Catalogue
	// again is when a catalogue that could not be read is looked for again.
	again map[string]time.Time
	dirty bool
}

func (v *view) apply(ev event) {
	if ev.catalogue != nil {
		v.catalogues[ev.key] = ev.catalogue
		v.dirty = true
		return
	}
	old, known := v.instances[ev.key]
	if known && ev.ann != nil {
		v.registry.conn.InstanceAnnounced(ev.ann.Service, ev.ann.Instance)
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

func (v *view) expire() {
	for key, in := range v.instances {
		if time.Since(in.seen) > BeatTTL {
			delete(v.instances, key)
			v.dirty = true
		}
	}
}

func (v *view) touch() {
	for key, in := range v.instances {
		in.seen = time.Now()
		v.instances[key] = in
	}
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
	return v.registry.conn.Bucket(bus.RegistryBucket).All(ctx, func(at string, value []byte) {
		if ev, ok := parse(at, value); ok {
			v.apply(ev)
		}
	})
}
