package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc/pool"
)

// streams are those of the bus besides the buckets'.
func streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{eventStream, taskStream, auditStream, deadStream}
}

const (
	// ensureTime is how long a bucket or stream may take to be made, or found,
	// before the others are used without it.
	ensureTime = 6 * time.Second
	// keepEvery is how often it is looked after, give or take a fifth, and
	// keepTime how long one may take to answer.
	keepEvery = 10 * time.Second
	keepTime  = 2 * time.Second
)

// storage is what a Conn knows of the bus's buckets and streams.
type storage struct {
	mu sync.Mutex
	// away are those that do not answer, by what they are called.
	away map[string]error
	// created is when each was made.
	created map[string]time.Time
	// shared are the values of keys that every process agrees on.
	shared map[sharedKey]sharedValue
}

type sharedKey struct{ bucket, key string }

type sharedValue struct {
	value []byte
	since time.Time
}

// store is a bucket or a stream.
type store struct {
	name string // for people
	// stream is what JetStream has it as.
	stream string
	create func(context.Context) error
	// demand is what it has to be, no more.
	demand jetstream.StreamConfig
}

func (c *Conn) stores() (all []store) {
	for _, cfg := range buckets {
		cfg.Storage = jetstream.FileStorage
		all = append(all, store{
			name: "bucket " + cfg.Bucket, stream: "KV_" + cfg.Bucket,
			create: func(ctx context.Context) error { _, err := c.js.CreateKeyValue(ctx, cfg); return err },
			demand: jetstream.StreamConfig{
				Description: cfg.Description, MaxAge: cfg.TTL, MaxMsgsPerSubject: int64(max(cfg.History, 1)), MaxMsgSize: cfg.MaxValueSize,
				MaxBytes: cfg.MaxBytes, AllowMsgTTL: cfg.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: cfg.LimitMarkerTTL,
			},
		})
	}
	for _, cfg := range streams() {
		s := store{
			name: "stream " + cfg.Name, stream: cfg.Name, demand: cfg,
			create: func(ctx context.Context) error { _, err := c.js.CreateStream(ctx, cfg); return err },
		}
		if cfg.Name == auditStream.Name {
			s.create = c.ensureAudit
		}
		all = append(all, s)
	}
	return all
}

// EnsureBuckets creates the buckets and streams of the bus, or brings them up
// to date. What an operator has made larger, or put on more servers, stays so.
// Any number of edges may do so at once.
//
// Those that do not answer, because the servers that hold them are down, are
// logged, and Away tells them; only when none answers is that an error.
func (c *Conn) EnsureBuckets(ctx context.Context) error {
	all := c.stores()
	// All at once: each waits for the server's disk.
	p := pool.New().WithContext(ctx)
	for _, s := range all {
		p.Go(func(ctx context.Context) error {
			err := c.ensure(ctx, s)
			if err != nil && isAway(err) {
				c.noteAway(s, err)
				return nil
			}
			return err
		})
	}
	if err := p.Wait(); err != nil {
		return err
	}
	if away := c.Away(); len(away) == len(all) {
		return fmt.Errorf("no bucket of the bus can be reached; does the NATS server run with JetStream? %w", c.reason(all[0]))
	}
	return ctx.Err()
}

// ensure makes a store, and asks again while nobody is there to answer.
func (c *Conn) ensure(ctx context.Context, s store) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTime)
	defer cancel()
	for {
		err := s.create(ctx)
		if errors.Is(err, jetstream.ErrBucketExists) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			err = c.adjust(ctx, s) // as another release, or an operator, made it
		}
		switch {
		case err == nil:
			c.noteBack(s)
			return nil
		case !isAway(err):
			return fmt.Errorf("create %s: %w%s", s.name, err, hint(err))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// hint says what to do about a refusal.
func hint(err error) string {
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == 10047 {
		var need int64
		for _, b := range buckets {
			need += b.MaxBytes
		}
		for _, s := range streams() {
			need += s.MaxBytes
		}
		return fmt.Sprintf("; JetStream must be allowed %d MiB (max_file_store)", need>>20)
	}
	return ""
}

// adjust changes of what there is only what has to be.
func (c *Conn) adjust(ctx context.Context, s store) error {
	found, err := c.js.Stream(ctx, s.stream)
	if err != nil {
		return err
	}
	now := found.CachedInfo().Config
	want := demanded(now, s.demand)
	if reflect.DeepEqual(now, want) {
		return nil
	}
	_, err = c.js.UpdateStream(ctx, want)
	return err
}

// demanded is a configuration with what another one says; a limit of size only if
// it is larger.
func demanded(now, demand jetstream.StreamConfig) jetstream.StreamConfig {
	want := now
	to, from := reflect.ValueOf(&want).Elem(), reflect.ValueOf(demand)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	want.Replicas = max(now.Replicas, demand.Replicas)
	want.MaxBytes = max(now.MaxBytes, demand.MaxBytes)
	if demand.MaxMsgSize > 0 {
		want.MaxMsgSize = max(now.MaxMsgSize, demand.MaxMsgSize)
	}
	return want
}

// isAway reports whether an error says that nobody answered who could, rather
// than that somebody refused.
func isAway(err error) bool {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		return refused.Code == 503 || refused.ErrorCode == 10005 // no server has room for it now
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

// Away are the buckets and streams that did not answer when last asked, sorted.
// What needs them fails until they are back, which KeepBuckets notices.
func (c *Conn) Away() []string {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	return slices.Sorted(maps.Keys(c.storage.away))
}

func (c *Conn) isAway(bucket string) bool { return slices.Contains(c.Away(), "bucket "+bucket) }

func (c *Conn) reason(s store) error {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	return c.storage.away[s.name]
}

func (c *Conn) noteAway(s store, err error) {
	c.storage.mu.Lock()
	_, known := c.storage.away[s.name]
	if c.storage.away == nil {
		c.storage.away = map[string]error{}
	}
	c.storage.away[s.name] = err
	c.storage.mu.Unlock()
	if !known {
		c.log.Warn("a part of the bus's storage does not answer; going on without it", "what", s.name, "error", err)
	}
}

func (c *Conn) noteBack(s store) {
	c.storage.mu.Lock()
	_, was := c.storage.away[s.name]
	delete(c.storage.away, s.name)
	c.storage.mu.Unlock()
	if was {
		c.log.Info("a part of the bus's storage is back", "what", s.name)
	}
}

// KeepBuckets looks after what EnsureBuckets made until stop is called: every
// few seconds, and when the bus is back. What is gone, with the disk that it was
// on, is made again, and gets back the shared keys that this process knows.
func (c *Conn) KeepBuckets() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	poke := make(chan struct{}, 1)
	unhook := c.OnReconnect(func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(jitter(keepEvery))
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			case <-poke:
			}
			if c.Connected() {
				c.lookAfter(ctx)
			}
			timer.Reset(jitter(keepEvery))
		}
	}()
	return func() { unhook(); cancel(); <-done }
}

func (c *Conn) lookAfter(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range c.stores() {
		all.Go(func() { c.lookAt(ctx, s) })
	}
	all.Wait()
}

func (c *Conn) lookAt(ctx context.Context, s store) {
	one, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	found, err := c.js.Stream(one, s.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c.log.Warn("a part of the bus's storage is gone; making it again", "what", s.name)
		if err = c.ensure(ctx, s); err == nil {
			one, cancel := context.WithTimeout(ctx, keepTime)
			defer cancel()
			found, err = c.js.Stream(one, s.stream)
		}
	}
	if err != nil {
		if ctx.Err() == nil && c.Connected() {
			c.noteAway(s, err)
		}
		return
	}
	c.noteBack(s)
	created := found.CachedInfo().Created
	c.storage.mu.Lock()
	before, known := c.storage.created[s.stream]
	if c.storage.created == nil {
		c.storage.created = map[string]time.Time{}
	}
	c.storage.created[s.stream] = created
	c.storage.mu.Unlock()
	if bucket, ok := strings.CutPrefix(s.stream, "KV_"); ok && (!known || !before.Equal(created)) {
		c.shareAgain(ctx, bucket)
	}
}

// remember keeps the value of a shared key.
func (c *Conn) remember(bucket, key string, value []byte) {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	if c.storage.shared == nil {
		c.storage.shared = map[sharedKey]sharedValue{}
	}
	// As long as the bucket does.
	ttl := time.Duration(0)
	if i := slices.IndexFunc(buckets, func(b jetstream.KeyValueConfig) bool { return b.Bucket == bucket }); i >= 0 {
		ttl = buckets[i].TTL
	}
	maps.DeleteFunc(c.storage.shared, func(k sharedKey, v sharedValue) bool {
		return k.bucket == bucket && ttl > 0 && time.Since(v.since) > ttl
	})
	if _, known := c.storage.shared[sharedKey{bucket, key}]; !known {
		c.storage.shared[sharedKey{bucket, key}] = sharedValue{value, time.Now()}
	}
}

// shareAgain puts the shared keys into a bucket that may have lost them.
func (c *Conn) shareAgain(ctx context.Context, bucket string) {
	c.storage.mu.Lock()
	shared := maps.Clone(c.storage.shared)
	c.storage.mu.Unlock()
	b := &Bucket{conn: c, kv: &openKV{conn: c, name: bucket}}
	for k, v := range shared {
		if k.bucket != bucket {
			continue
		}
		one, cancel := context.WithTimeout(ctx, keepTime)
		put, err := b.Create(one, k.key, v.value)
		if err == nil && !put {
			var there []byte
			if there, err = b.Get(one, k.key); err == nil && string(there) != string(v.value) {
				err = errors.New("another process has another value by now; what this one sealed opens at no other until it is restarted")
			}
		}
		cancel()
		if err != nil {
			c.log.Error("a shared key is not back in its bucket", "bucket", bucket, "key", k.key, "error", err)
		}
	}
}
