package bus

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	sub      *nats.Subscription
	stopHook func()
	events   chan registryEvent
	// quit ends with Close, and what run asks of the bus with it.
	quit context.Context
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	services []Service
}

// registryEvent is an announcement, or a withdrawal when ann is nil.
type registryEvent struct {
	key     string
	ann     *busv1.Announcement
	relist  bool
	renewed bool
}

type instance struct {
	ann  *busv1.Announcement
	seen time.Time
}

const relistEvery = 5 * time.Minute

// WatchRegistry returns once everything in the registry is known. onChange is
// called, one call at a time, with every later state whose services differ in
// name, version, catalogue or number of instances; services are sorted by name.
func WatchRegistry(ctx context.Context, conn *Conn, onChange func([]Service)) (*Registry, error) {
	r := &Registry{
		conn: conn, onChange: onChange,
		events: make(chan registryEvent, 256), done: make(chan struct{}),
	}
	r.quit, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if r.sub, err = conn.nc.Subscribe("$KV."+RegistryBucket+".>", r.heard); err != nil {
		r.stop()
		return nil, publishFault(err)
	}
	if err := conn.Flush(ctx); err != nil {
		r.stop()
		return nil, err
	}
	view := &registryView{registry: r, instances: map[string]instance{}, catalogues: map[string]*busv1.Catalogue{}}
	if err := view.list(ctx); err != nil {
		r.stop()
		_ = r.sub.Unsubscribe()
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
	_ = r.sub.Unsubscribe()
	r.stop()
	<-r.done
}

func (r *Registry) heard(msg *nats.Msg) {
	if ev, ok := parseRegistry(msg.Subject, msg.Header, msg.Data); ok {
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
	if header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != "" {
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
	dirty      bool
}

func (v *registryView) apply(ev registryEvent) {
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

// list adds what the bucket holds.
func (v *registryView) list(ctx context.Context) error {
	cons, err := v.registry.conn.js.OrderedConsumer(ctx, "KV_"+RegistryBucket, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, InactiveThreshold: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	pending := int(cons.CachedInfo().NumPending)
	if pending == 0 {
		return nil
	}
	// What has expired since it was counted does not come.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	batch, err := cons.Fetch(pending, jetstream.FetchContext(ctx))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		if ev, ok := parseRegistry(msg.Subject(), msg.Headers(), msg.Data()); ok && ev.ann != nil {
			v.apply(ev)
		}
	}
	return batch.Error()
}

// settle makes the list of services anew if anything changed, and reports
// whether it differs. A service whose catalogue cannot be read yet keeps the
// one it had; the next beat tries again.
func (v *registryView) settle(ctx context.Context) bool {
	if !v.dirty {
		return false
	}
	v.dirty = false
	newest, all := v.newest()
	v.registry.conn.members.set(all)
	v.registry.mu.Lock()
	before := v.registry.services
	v.registry.mu.Unlock()
	var now []Service
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		ann := newest[name]
		c, err := v.catalogue(ctx, ann)
		if err != nil {
			v.registry.conn.log.Warn("catalogue not read yet", "service", name, "error", err)
			v.dirty = true
			if i := slices.IndexFunc(before, func(s Service) bool { return s.Name == name }); i >= 0 {
				now = append(now, before[i])
			}
			continue
		}
		now = append(now, Service{Name: name, Version: ann.Version, Digest: ann.CatalogueDigest, Catalogue: c, Instances: names(all[name])})
	}
	same := slices.EqualFunc(before, now, func(a, b Service) bool {
		return a.Name == b.Name && a.Version == b.Version && a.Digest == b.Digest && slices.Equal(a.Instances, b.Instances)
	})
	v.registry.mu.Lock()
	v.registry.services = now
	v.registry.mu.Unlock()
	return !same
}

// newest returns, by service, the instance whose catalogue counts, and which
// there are. Every edge comes to the same answer: the version of the instance
// that started last, and of that version the catalogue that changed last.
func (v *registryView) newest() (map[string]*busv1.Announcement, map[string][]*busv1.Announcement) {
	instances := map[string][]*busv1.Announcement{}
	last := map[string]*busv1.Announcement{}
	for _, in := range v.instances {
		instances[in.ann.Service] = append(instances[in.ann.Service], in.ann)
		if old := last[in.ann.Service]; old == nil || later(in.ann, old, (*busv1.Announcement).GetStartedUnixNano) {
			last[in.ann.Service] = in.ann
		}
	}
	newest := map[string]*busv1.Announcement{}
	for _, in := range v.instances {
		name := in.ann.Service
		if in.ann.Version != last[name].Version {
			continue
		}
		if old := newest[name]; old == nil || later(in.ann, old, (*busv1.Announcement).GetCatalogueUnixNano) {
			newest[name] = in.ann
		}
	}
	return newest, instances
}

func names(anns []*busv1.Announcement) []string {
	var all []string
	for _, ann := range anns {
		all = append(all, ann.Instance)
	}
	slices.Sort(all)
	return all
}

func later(a, b *busv1.Announcement, when func(*busv1.Announcement) uint64) bool {
	if when(a) != when(b) {
		return when(a) > when(b)
	}
	return a.Instance > b.Instance
}

func (v *registryView) catalogue(ctx context.Context, ann *busv1.Announcement) (*busv1.Catalogue, error) {
	key := catalogueKey(ann.Service, ann.CatalogueDigest)
	if c := v.catalogues[key]; c != nil {
		return c, nil
	}
	kv, err := v.registry.conn.js.KeyValue(ctx, CatalogueBucket)
	if err != nil {
		return nil, err
	}
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	c := &busv1.Catalogue{}
	if err := proto.Unmarshal(entry.Value(), c); err != nil {
		return nil, err
	}
	if c.Service != ann.Service {
		return nil, errors.New("catalogue is of another service")
	}
	for old := range v.catalogues {
		if strings.HasPrefix(old, ann.Service+".") {
			delete(v.catalogues, old)
		}
	}
	v.catalogues[key] = c
	return c, nil
}
