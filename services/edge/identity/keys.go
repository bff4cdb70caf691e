package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

const (
	// resyncTime is the interval, give or take a fifth, at which all API keys are read again,
	// in case a change was not heard.
	resyncTime = 30 * time.Second
	// useTime is the interval at which the use of a key is recorded.
	useTime = time.Minute
	// maxUses is how many records may wait for the bus. Further ones are dropped.
	maxUses = 1024
)

// Keys are the API keys of a bus, as known to one edge, which hears of each new or revoked key at once.
// The methods are safe for concurrent use.
type Keys struct {
	store *store.APIKeys
	log   *slog.Logger
	uses  chan string
	poke  chan struct{}
	// end ends the goroutines that Close waits for.
	end   context.CancelFunc
	ended sync.WaitGroup
	stops []func()

	mu sync.RWMutex
	// known is nil until they have been read once.
	known map[string]*entry
	// heard holds the keys that changed during a read of all keys, nil for a revoked one. It is
	// nil at other times.
	heard map[string]*store.APIKey
	// onEnded are called with each ended key.
	onEnded func(credential string)
}

type entry struct {
	store.APIKey
	mu   sync.Mutex
	used time.Time
}

// NewKeys follows the API keys of a bus. Close them before the connection.
func NewKeys(conn *bus.Conn, log *slog.Logger) (*Keys, error) {
	k := &Keys{
		store: store.NewAPIKeys(conn), log: log, uses: make(chan string, maxUses), poke: make(chan struct{}, 1),
		onEnded: func(string) {},
	}
	stop, err := k.store.OnChange(k.changed)
	if err != nil {
		return nil, err
	}
	k.stops = []func(){stop, conn.OnReconnect(func() {
		select {
		case k.poke <- struct{}{}:
		default:
		}
	})}
	ctx, end := context.WithCancel(context.Background())
	k.end = end
	k.resync(ctx)
	k.ended.Go(func() { k.follow(ctx) })
	k.ended.Go(func() { k.note(ctx) })
	return k, nil
}

// Close stops following them.
func (k *Keys) Close() {
	for _, stop := range k.stops {
		stop()
	}
	k.end()
	k.ended.Wait()
}

func (k *Keys) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		k.mu.RLock()
		next := bus.Jitter(resyncTime)
		if k.known == nil {
			next = time.Second
		}
		k.mu.RUnlock()
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.poke:
		}
		k.resync(ctx)
	}
}

// resync reads all keys. Changes heard meanwhile take precedence.
func (k *Keys) resync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	k.mu.Lock()
	k.heard = map[string]*store.APIKey{}
	k.mu.Unlock()
	all, err := k.store.All(ctx)
	k.mu.Lock()
	heard := k.heard
	k.heard = nil
	if err != nil {
		known := len(k.known)
		k.mu.Unlock()
		k.log.Warn("API keys cannot be read; the known ones stay in use", "known", known, "error", err)
		return
	}
	now := map[string]*entry{}
	for _, one := range all {
		now[one.ID] = &entry{APIKey: one}
	}
	for id, one := range heard {
		if delete(now, id); one != nil {
			now[id] = &entry{APIKey: *one}
		}
	}
	var gone []string
	for id, old := range k.known {
		if now[id] == nil {
			gone = append(gone, id)
		} else {
			now[id] = old.as(now[id].APIKey)
		}
	}
	k.known = now
	ended := k.onEnded
	k.mu.Unlock()
	for _, id := range gone {
		ended(credentialOf(id))
	}
}

// as returns the entry of a key after it was read again.
func (e *entry) as(k store.APIKey) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &entry{APIKey: k, used: e.used}
}

// changed applies a change that was heard.
func (k *Keys) changed(id string, now *store.APIKey) {
	k.mu.Lock()
	if k.heard != nil {
		k.heard[id] = now
	}
	switch {
	case k.known == nil: // the first read is still to come
	case now == nil:
		delete(k.known, id)
	default:
		k.known[id] = &entry{APIKey: *now}
	}
	ended := k.onEnded
	k.mu.Unlock()
	ended(credentialOf(id))
}

// revoked reports whether a credential is an API key that no longer exists. For an unknown one it asks the
// bus, because the key may be new.
func (k *Keys) revoked(ctx context.Context, credential string) (bool, error) {
	id, ok := strings.CutPrefix(credential, credentialOf(""))
	if !ok {
		return false, nil
	}
	k.mu.RLock()
	known := k.known[id] != nil
	k.mu.RUnlock()
	if known {
		return false, nil
	}
	there, err := k.store.Has(ctx, id)
	return !there && err == nil, err
}

func credentialOf(id string) string { return "key bb_" + id }

// nobodys is compared if there is no such key, so that the comparison takes equally long.
var nobodys = entry{APIKey: store.APIKey{Hash: make([]byte, sha256.Size)}}

// authenticate returns the principal of a key. Its error does not reveal more than that the key is bad.
func (k *Keys) authenticate(key string) (gateway.Principal, error) {
	id, ok := store.APIKeyID(key)
	k.mu.RLock()
	loaded, e := k.known != nil, k.known[id]
	k.mu.RUnlock()
	if !loaded {
		f := fault.New(fault.Unavailable, "API keys cannot be read now; try again shortly")
		f.RetryAfter = time.Second
		return gateway.Principal{}, f
	}
	if e == nil {
		e, ok = &nobodys, false
	}
	sum := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(sum[:], e.Hash) != 1 || !ok {
		return gateway.Principal{}, invalid("the API key is unknown or was revoked")
	}
	now := time.Now()
	if !e.Expires.IsZero() && !now.Before(e.Expires) {
		return gateway.Principal{}, invalid("the API key has expired")
	}
	k.use(e, now)
	return gateway.Principal{Name: e.Principal, Expires: e.Expires, Credential: credentialOf(id)}, nil
}

// use records that a key is in use.
func (k *Keys) use(e *entry, now time.Time) {
	e.mu.Lock()
	due := now.Sub(e.used) >= useTime
	if due {
		e.used = now
	}
	e.mu.Unlock()
	if !due {
		return
	}
	select {
	case k.uses <- e.ID:
	default:
	}
}

func (k *Keys) note(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-k.uses:
			one, cancel := context.WithTimeout(ctx, 2*time.Second)
			if err := k.store.Use(one, id, time.Now()); err != nil {
				k.log.Debug("the use of an API key could not be recorded", "key", credentialOf(id), "error", err)
			}
			cancel()
		}
	}
}
