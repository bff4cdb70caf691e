// Package registry knows the services on the bus and their offers. Each instance announces itself until it
// is withdrawn, and edges watch. Start at Announce for services and at Watch for edges.
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// Lifetimes in the registry.
const (
	// BeatEvery is how often an instance announces itself, give or take a fifth.
	//limit:process interval at which an instance announces itself
	BeatEvery = 5 * time.Second
	// BeatTTL is how long an instance stays in the registry without a heartbeat.
	BeatTTL = 15 * time.Second
	// CatalogueTTL is longer than an edge needs to read a catalogue; instances write theirs
	// again well within it.
	CatalogueTTL   = time.Hour
	catalogueEvery = 20 * time.Minute
)

func key(service, instance string) string { return service + "." + instance }

func catalogueKey(service, digest string) string { return service + "." + digest }

func instanceSubject(ann *busv1.Announcement) string {
	return subject.Key(bus.RegistryBucket, key(ann.Service, ann.Instance))
}

// Announcer keeps one instance in the registry until it is withdrawn.
type Announcer struct {
	conn     *bus.Conn
	stopHook func()
	poke     chan struct{}
	quit     chan struct{}
	done     chan struct{}
	withdraw sync.Once

	mu        sync.Mutex
	ann       *busv1.Announcement
	catalogue []byte
	written   time.Time // when the catalogue was last stored
	kept      time.Time // when the registry last accepted a heartbeat
	refused   error     // why it has not accepted one since
	// unasked ends the subscription by which edges ask for the catalogue.
	unasked func()
}

// Announce announces the instance and its service's offers to every edge, and keeps doing so.
func Announce(conn *bus.Conn, service, instance, version string, c *busv1.Catalogue) (*Announcer, error) {
	if err := bus.ValidName(service); err != nil {
		return nil, fmt.Errorf("service %w", err)
	}
	a := &Announcer{
		conn: conn, kept: time.Now(), poke: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		ann: &busv1.Announcement{
			Service: service, Instance: instance, Version: version, StartedUnixNano: uint64(time.Now().UnixNano()),
		},
	}
	if err := a.Update(c); err != nil {
		return nil, err
	}
	a.stopHook = conn.OnReconnect(a.again) // the server may have lost its data
	go a.run()
	return a, nil
}

// Update announces another catalogue at once.
func (a *Announcer) Update(c *busv1.Catalogue) error {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode catalogue of %s: %w", a.ann.Service, err)
	}
	if limit := a.conn.NATS().MaxPayload(); limit > 0 && int64(len(data)) > limit-1024 {
		return fmt.Errorf("catalogue of %s is %d bytes; the limit of a bus message is %d; split the service", a.ann.Service, len(data), limit)
	}
	sum := sha256.Sum256(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	if digest := hex.EncodeToString(sum[:]); digest != a.ann.CatalogueDigest {
		if err := a.listenLocked(digest); err != nil {
			return err
		}
		a.ann.CatalogueDigest, a.ann.CatalogueUnixNano = digest, uint64(time.Now().UnixNano())
	}
	a.catalogue, a.written = data, time.Time{}
	a.now()
	return nil
}

// listenLocked lets edges ask for the catalogue of a digest. One of the instances that have it answers by
// storing it.
func (a *Announcer) listenLocked(digest string) error {
	sub, err := a.conn.NATS().QueueSubscribe(subject.Catalogue(a.ann.Service, digest), a.ann.Service, func(*nats.Msg) { a.again() })
	if err != nil {
		return wire.NotSent(err)
	}
	if a.unasked != nil {
		a.unasked()
	}
	a.unasked = func() { _ = sub.Unsubscribe() }
	return nil
}

// again stores the catalogue at once, with a heartbeat.
func (a *Announcer) again() {
	a.mu.Lock()
	if time.Since(a.written) > wantAgain/2 { // only once, even if several edges ask
		a.written = time.Time{}
	}
	a.mu.Unlock()
	a.now()
}

// Withdraw announces to every edge that the instance is gone. Repeating it does nothing.
func (a *Announcer) Withdraw(ctx context.Context) {
	a.withdraw.Do(func() { a.leave(ctx) })
}

func (a *Announcer) leave(ctx context.Context) {
	a.stopHook()
	close(a.quit)
	<-a.done
	a.unasked()
	msg := nats.NewMsg(instanceSubject(a.ann))
	msg.Header.Set("KV-Operation", "DEL")
	if err := a.publish(ctx, msg); err != nil {
		a.conn.Log().Warn("the withdrawal was not recorded; this instance will expire in the registry", "service", a.ann.Service, "error", err)
	}
}

func (a *Announcer) now() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func (a *Announcer) run() {
	defer close(a.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-a.quit:
			return
		case <-a.poke:
		case <-timer.C:
		}
		wait := wire.Jitter(BeatEvery)
		err := a.beat()
		a.taken(err)
		if err != nil {
			if failures++; failures == 3 {
				a.conn.Log().Warn("cannot announce the service; retrying", "service", a.ann.Service, "error", err)
			}
			wait = wire.Jitter(min(BeatEvery, time.Duration(failures)*200*time.Millisecond))
		} else {
			failures = 0
		}
		timer.Reset(wait)
	}
}

// taken records whether the registry accepted a heartbeat.
func (a *Announcer) taken(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused = err; err == nil {
		a.kept = time.Now()
	}
}

// RefusedSince returns why the registry has accepted nothing from the instance for longer than BeatTTL, so that
// edges no longer see it; nil while they do.
func (a *Announcer) RefusedSince() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.kept) <= BeatTTL {
		return nil
	}
	return a.refused
}

// beat stores the catalogue if it is due, then the announcement that refers to it. It sends the
// announcement even if nothing can be stored: edges that know the catalogue listen for it.
func (a *Announcer) beat() error {
	a.mu.Lock()
	ann := proto.CloneOf(a.ann)
	catalogue, due := a.catalogue, time.Since(a.written) > catalogueEvery
	a.mu.Unlock()
	var stored error
	if due {
		msg := nats.NewMsg(subject.Key(bus.CatalogueBucket, catalogueKey(ann.Service, ann.CatalogueDigest)))
		msg.Data = catalogue
		if stored = a.publish(context.Background(), msg); stored == nil {
			a.mu.Lock()
			if a.ann.CatalogueDigest == ann.CatalogueDigest {
				a.written = time.Now()
			}
			a.mu.Unlock()
		}
	}
	ann.SentUnixNano, ann.Region = uint64(a.conn.Now().UnixNano()), a.conn.Region()
	data, err := proto.Marshal(ann)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(instanceSubject(ann))
	msg.Data = data
	return errors.Join(stored, a.publish(context.Background(), msg))
}

// publish writes a key by its subject. Unlike the key-value API, that needs permission only for this
// subject and none for JetStream.
func (a *Announcer) publish(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := a.conn.JetStream().PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	return err
}
