// Package storage creates the buckets and streams of the bus, keeps them correct, and divides
// shared buckets among services. Only edges use it; any number of them may do so concurrently. The
// table in stores.go says what exists. Start reading at Ensure and Storage.Keep.
package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

const (
	// ensureTime is how long creating or finding a bucket or stream may take before the others are
	// used without it.
	ensureTime = 6 * time.Second
	// startTime is how long all of them may be away at the start before that is an error.
	startTime = 25 * time.Second
	// keepEvery is the interval of Keep, plus or minus a fifth, and keepTime how long one store may
	// take to answer.
	keepEvery = 10 * time.Second
	keepTime  = 2 * time.Second
)

// Storage is this process's knowledge of the buckets and streams of the bus.
type Storage struct {
	conn     *bus.Conn
	replicas Replicas
	turns    turns

	mu sync.Mutex
	// away has the stores that do not answer, by name.
	away map[string]error
	// created is when each store was created.
	created map[string]time.Time
	// sizes are by the name of the store.
	sizes map[string]Size
	// shared are the values of keys that every process agrees on.
	shared map[sharedKey]sharedValue
	// raised is when the cluster last had too few servers for a store.
	raised map[string]time.Time

	// sharing is held while the shares of services are enforced.
	sharing sync.Mutex
	// accounts are by bucket. trimmed is when a service last lost entries, and told when
	// that was logged, by bucket and service.
	accounts map[string]*account
	trimmed  time.Time
	told     map[string]time.Time
	// refused has a value if a service was refused since the last check.
	refused chan struct{}
}

type sharedKey struct{ bucket, key string }

type sharedValue struct {
	value []byte
	since time.Time
}

// Ensure creates the buckets and streams of the bus, or brings them up to date. A size or a number
// of replicas that an operator has increased stays. Any number of edges may call it concurrently.
// replicas is the number of servers that keep each store.
//
// Stores that do not answer, because their servers are down, are logged and returned by Away. It is
// an error only if none answers.
func Ensure(ctx context.Context, conn *bus.Conn, replicas Replicas) (*Storage, error) {
	if err := replicas.Validate(); err != nil {
		return nil, err
	}
	if replicas > 1 && !conn.Clustered() {
		return nil, fmt.Errorf("--nats-replicas %d: the NATS server is alone, and keeps one replica; use auto, or join it to a cluster", replicas)
	}
	s := &Storage{conn: conn, replicas: replicas, raised: map[string]time.Time{}, away: map[string]error{}, created: map[string]time.Time{}, sizes: map[string]Size{}, shared: map[sharedKey]sharedValue{}, accounts: map[string]*account{}, told: map[string]time.Time{}, refused: make(chan struct{}, 1)}
	// A starting cluster has no leader for a while, and does not answer.
	for began := time.Now(); ; {
		if err := s.ensureAll(ctx); err != nil {
			return nil, err
		}
		away := s.Away()
		if len(away) < len(stores) {
			return s, ctx.Err()
		}
		// A user without the permission to ask gets no answer either.
		flushing, cancel := context.WithTimeout(ctx, time.Second)
		err := conn.Flush(flushing)
		cancel()
		if errors.Is(err, nats.ErrPermissionViolation) {
			return nil, fmt.Errorf("buckets and streams are made with the secret of an edge (--nats-nkey edge.secret): %w", err)
		}
		if ctx.Err() != nil || time.Since(began) > startTime {
			return nil, fmt.Errorf("no bucket of the bus can be reached; does the NATS server run with JetStream? %w", s.away[away[0]])
		}
	}
}

// ensureAll creates all stores concurrently: each waits for the server's disk.
func (s *Storage) ensureAll(ctx context.Context) error {
	p := pool.New().WithContext(ctx)
	for _, one := range stores {
		p.Go(func(ctx context.Context) error {
			err := s.ensure(ctx, one)
			if err != nil && wire.NoAnswer(err) {
				s.noteAway(one, err)
				return nil
			}
			return err
		})
	}
	return p.Wait()
}

// ensure creates a store, and retries while no server answers.
func (s *Storage) ensure(ctx context.Context, one store) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTime)
	defer cancel()
	for {
		err := s.make(ctx, one)
		switch {
		case err == nil:
			s.noteBack(one)
			return nil
		case !wire.NoAnswer(err):
			return fmt.Errorf("create %s: %w%s", one.name, err, hint(err))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// make adjusts a store that another release or an operator created, or creates it. It usually
// exists, and a look costs less than a refused creation.
func (s *Storage) make(ctx context.Context, one store) error {
	var err error = jetstream.ErrStreamNotFound
	if !one.whole {
		err = s.adjust(ctx, one)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	err = one.create(ctx, s.conn, s.wanted())
	if s.replicas == Auto && tooFew(err) {
		err = one.create(ctx, s.conn, 1)
	}
	if errors.Is(err, jetstream.ErrBucketExists) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return s.adjust(ctx, one) // another edge created it meanwhile
	}
	return err
}

func (s *Storage) adjust(ctx context.Context, one store) error {
	now, err := one.adjust(ctx, s.conn.JetStream())
	if err != nil {
		return err
	}
	return s.raise(ctx, one, now)
}

// hint is the advice for a refusal.
func hint(err error) string {
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == 10047 {
		var need int64
		for _, one := range stores {
			need += one.demand.MaxBytes
		}
		return fmt.Sprintf("; JetStream must be allowed %d MiB (max_file_store)", need>>20)
	}
	return ""
}

// Away returns the buckets and streams that did not answer at the last check, sorted. Operations on
// them fail until they are back, which Keep notices.
func (s *Storage) Away() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.away))
}

func (s *Storage) noteAway(one store, err error) {
	s.mu.Lock()
	_, known := s.away[one.name]
	s.away[one.name] = err
	s.mu.Unlock()
	if !known {
		s.conn.Log().Warn("a part of the bus's storage does not answer; going on without it", "what", one.name, "error", err)
	}
}

func (s *Storage) noteBack(one store) {
	s.mu.Lock()
	_, was := s.away[one.name]
	delete(s.away, one.name)
	s.mu.Unlock()
	if was {
		s.conn.Log().Info("a part of the bus's storage is back", "what", one.name)
	}
}

// Keep maintains the stores until stop is called: every few seconds, and when the bus is back. A
// store that was lost with its disk is created again, with the shared keys that this process knows.
func (s *Storage) Keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	poke := make(chan struct{}, 1)
	unhook := s.conn.OnReconnect(func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait := keepEvery; s.pause(ctx, wire.Jitter(wait), poke); wait = s.nextLook() {
			if s.conn.Connected() {
				s.lookAfter(ctx)
			}
		}
	}()
	return func() { unhook(); cancel(); <-done }
}

// pause waits for the next check of the stores, which comes sooner after a poke or a refusal. It
// reports false if the context has ended.
func (s *Storage) pause(ctx context.Context, wait time.Duration, poke <-chan struct{}) bool {
	due := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-poke:
			return true
		case <-s.refused:
			timer.Reset(min(time.Until(due), s.refusing()))
		}
	}
}

// nextLook is the time until the next check.
func (s *Storage) nextLook() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.trimmed) < watchFor {
		return watchEvery
	}
	return keepEvery
}

func (s *Storage) lookAfter(ctx context.Context) {
	var all sync.WaitGroup
	found := make([]*jetstream.StreamInfo, len(stores))
	for i, one := range stores {
		all.Go(func() { found[i] = s.lookAt(ctx, one) })
	}
	all.Wait()
	s.spread(ctx, found)
}

// lookAt returns the state of a store; nil if it does not answer.
func (s *Storage) lookAt(ctx context.Context, one store) *jetstream.StreamInfo {
	found, err := s.look(ctx, one)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.conn.Log().Warn("a part of the bus's storage is gone; making it again", "what", one.name)
		if err = s.ensure(ctx, one); err == nil {
			found, err = s.look(ctx, one)
		}
	}
	if err != nil {
		if ctx.Err() == nil && s.conn.Connected() {
			s.noteAway(one, err)
		}
		return nil
	}
	s.noteBack(one)
	s.noteSize(one, found)
	if err := s.share(ctx, one, found, false); err != nil && ctx.Err() == nil {
		s.conn.Log().Warn("the shares of services in a part of the bus's storage are not looked after", "what", one.name, "error", err)
	}
	if err := s.raise(ctx, one, found.Config); err != nil && ctx.Err() == nil {
		s.conn.Log().Warn("a part of the bus's storage cannot be put on more servers", "what", one.name, "error", err)
	}
	s.mu.Lock()
	before, known := s.created[one.stream]
	s.created[one.stream] = found.Created
	s.mu.Unlock()
	if bucket, ok := strings.CutPrefix(one.stream, "KV_"); ok && (!known || !before.Equal(found.Created)) {
		s.shareAgain(ctx, bucket)
	}
	return found
}

func (s *Storage) look(ctx context.Context, one store) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	found, err := s.conn.JetStream().Stream(ctx, one.stream)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil
}

// Shared is bus.Bucket.Shared. While Keep runs, it also restores the value in a bucket that was
// lost.
func (s *Storage) Shared(ctx context.Context, bucket, key string, fresh []byte) ([]byte, error) {
	value, err := s.conn.Bucket(bucket).Shared(ctx, key, fresh)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// As long as the bucket keeps entries.
	ttl := time.Duration(0)
	if i := slices.IndexFunc(stores, func(one store) bool { return one.stream == "KV_"+bucket }); i >= 0 {
		ttl = stores[i].demand.MaxAge
	}
	maps.DeleteFunc(s.shared, func(k sharedKey, v sharedValue) bool {
		return k.bucket == bucket && ttl > 0 && time.Since(v.since) > ttl
	})
	if k := (sharedKey{bucket, key}); s.shared[k].value == nil {
		s.shared[k] = sharedValue{value, time.Now()}
	}
	return value, nil
}

// shareAgain puts the shared keys into a bucket that may have lost them.
func (s *Storage) shareAgain(ctx context.Context, bucket string) {
	s.mu.Lock()
	shared := maps.Clone(s.shared)
	s.mu.Unlock()
	for k, v := range shared {
		if k.bucket != bucket {
			continue
		}
		one, cancel := context.WithTimeout(ctx, keepTime)
		there, err := s.conn.Bucket(bucket).Shared(one, k.key, v.value)
		cancel()
		if err == nil && string(there) != string(v.value) {
			err = errors.New("another process has another value by now; what this one sealed opens at no other until it is restarted")
		}
		if err != nil {
			s.conn.Log().Error("a shared key is not back in its bucket", "bucket", bucket, "key", k.key, "error", err)
		}
	}
}
