package bus

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// openKV is a key-value bucket that is opened when it can be.
type openKV struct {
	conn *Conn
	name string

	mu sync.Mutex
	kv jetstream.KeyValue
}

// openKV fails for a bucket that does not exist, not for one out of reach.
func (c *Conn) openKV(ctx context.Context, name string) (*openKV, error) {
	o := &openKV{conn: c, name: name}
	if c.isAway(name) {
		return o, nil
	}
	if _, err := o.open(ctx); err != nil && !isAway(err) {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return o, nil
}

func (o *openKV) open(ctx context.Context) (jetstream.KeyValue, error) {
	o.mu.Lock()
	kv := o.kv
	o.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := o.conn.js.KeyValue(ctx, o.name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kv = kv
	return kv, nil
}

func (o *openKV) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	kv, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	return kv.Get(ctx, key)
}

func (o *openKV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	kv, err := o.open(ctx)
	if err != nil {
		return 0, err
	}
	return kv.Put(ctx, key, value)
}

func (o *openKV) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	kv, err := o.open(ctx)
	if err != nil {
		return 0, err
	}
	return kv.Create(ctx, key, value, opts...)
}

func (o *openKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	kv, err := o.open(ctx)
	if err != nil {
		return 0, err
	}
	return kv.Update(ctx, key, value, revision)
}

func (o *openKV) Purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	kv, err := o.open(ctx)
	if err != nil {
		return err
	}
	return kv.Purge(ctx, key, opts...)
}

func (o *openKV) ListKeysFiltered(ctx context.Context, filters ...string) (jetstream.KeyLister, error) {
	kv, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	return kv.ListKeysFiltered(ctx, filters...)
}
