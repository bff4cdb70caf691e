package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Buckets of the bus; package storage makes them.
const (
	RegistryBucket  = "registry"
	CatalogueBucket = "catalogue"
	SessionsBucket  = "sessions"
	KeysBucket      = "keys"
	TasksBucket     = "tasks"
	StreamsBucket   = "streams"
	AuditBucket     = "audit"
	ApprovalsBucket = "approvals"
	OutcomesBucket  = "outcomes"
	NamesBucket     = "names"
)

// Bucket is one key-value bucket, shared by every process on the bus. It is
// opened when it is first used, so that a bucket may be made, or be within
// reach, later than this. Errors are *fault.Error with reason Unavailable unless
// a method says otherwise.
type Bucket struct {
	conn *Conn
	name string
	kv   atomic.Pointer[jetstream.KeyValue]
}

// Bucket returns a bucket by its name.
func (c *Conn) Bucket(name string) *Bucket { return &Bucket{conn: c, name: name} }

func (b *Bucket) open(ctx context.Context) (jetstream.KeyValue, error) {
	if kv := b.kv.Load(); kv != nil {
		return *kv, nil
	}
	kv, err := b.conn.js.KeyValue(ctx, b.name)
	if err != nil {
		return nil, err
	}
	b.kv.Store(&kv)
	return kv, nil
}

// ErrNoKey means that a key is not there, or no longer.
var ErrNoKey = errors.New("no such key")

// maxKey bounds a key: it becomes part of a subject, and NATS hangs up for good
// on one that is too long.
const maxKey = 256

// Get returns the value of a key, or ErrNoKey.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	value, revision, err := b.Look(ctx, key)
	if err == nil && revision == 0 {
		return nil, ErrNoKey
	}
	return value, err
}

// Look returns the value of a key and its revision; 0 and no error when the key
// is not there.
func (b *Bucket) Look(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	if len(key) > maxKey {
		return nil, 0, nil
	}
	kv, err := b.open(ctx)
	if err != nil {
		return nil, 0, wire.NotReached(err)
	}
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey):
		return nil, 0, nil
	case err != nil:
		return nil, 0, wire.NotReached(err)
	}
	return entry.Value(), entry.Revision(), nil
}

// Put stores a value, and the key's age begins again.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) error {
	_, err := b.write(ctx, key, func(kv jetstream.KeyValue) (uint64, error) { return kv.Put(ctx, key, value) })
	return err
}

// Create stores a value unless the key has one, and reports whether it did.
func (b *Bucket) Create(ctx context.Context, key string, value []byte) (bool, error) {
	revision, err := b.Replace(ctx, key, value, 0)
	return revision > 0, err
}

// Replace stores a value in place of the revision that Look returned, and
// returns the new revision; 0 when somebody else wrote in between.
func (b *Bucket) Replace(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, key, func(kv jetstream.KeyValue) (now uint64, err error) {
		if revision == 0 {
			now, err = kv.Create(ctx, key, value)
		} else {
			now, err = kv.Update(ctx, key, value, revision)
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
			return 0, nil
		}
		return now, err
	})
}

func (b *Bucket) write(ctx context.Context, key string, f func(jetstream.KeyValue) (uint64, error)) (uint64, error) {
	if len(key) > maxKey {
		return 0, fault.New(fault.TooLarge, "a key is longer than %d bytes", maxKey)
	}
	kv, err := b.open(ctx)
	if err != nil {
		return 0, wire.NotReached(err)
	}
	revision, err := f(kv)
	if err != nil {
		return 0, wire.NotReached(err)
	}
	return revision, nil
}

// Change replaces the value of a key by what f makes of it, as one step: when
// somebody else writes in between, f is called again with their value. An error
// of f is returned as it is; ErrNoKey says that the key is not there.
func (b *Bucket) Change(ctx context.Context, key string, f func([]byte) ([]byte, error)) error {
	return Swap(func() (bool, error) {
		value, revision, err := b.Look(ctx, key)
		if err == nil && revision == 0 {
			err = ErrNoKey
		}
		if err != nil {
			return false, err
		}
		if value, err = f(value); err != nil {
			return false, err
		}
		now, err := b.Replace(ctx, key, value, revision)
		return now > 0, err
	})
}

// Swap repeats try, which reads, changes and writes, until no other writer was
// faster: it returns what try does once that is true, or an error. With too many
// writers it gives up with Overloaded.
func Swap(try func() (done bool, err error)) error {
	const tries = 16
	for range tries {
		if done, err := try(); done || err != nil {
			return err
		}
	}
	return fault.New(fault.Overloaded, "too many writers of one key; try again shortly")
}

// Delete removes a key; one that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	return b.purge(ctx, key)
}

// DeleteAt removes a key whose revision is still the one that Look or Replace
// returned. One that somebody else wrote since, or removed, is no error.
func (b *Bucket) DeleteAt(ctx context.Context, key string, revision uint64) error {
	return b.purge(ctx, key, jetstream.LastRevision(revision))
}

func (b *Bucket) purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if len(key) > maxKey {
		return nil
	}
	kv, err := b.open(ctx)
	if err == nil {
		err = kv.Purge(ctx, key, opts...)
	}
	var refused jetstream.JetStreamError
	switch {
	case err == nil, errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrInvalidKey),
		errors.As(err, &refused) && refused.APIError() != nil && refused.APIError().ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return nil
	}
	return wire.NotReached(err)
}

// OnWrite calls f with the key at every write and deletion from now on, whoever
// makes it, of one key or of all (">"). f must not block. stop ends that.
func (b *Bucket) OnWrite(keys string, f func(key string)) (stop func(), err error) {
	stop, err = b.conn.Subscribe(subject.Key(b.name, keys), func(msg *nats.Msg) { f(subject.KeyOf(b.name, msg.Subject)) })
	if err != nil {
		return nil, err
	}
	if err := b.conn.nc.FlushTimeout(5 * time.Second); err != nil { // from now on, not from soon
		stop()
		return nil, wire.NotSent(err)
	}
	return stop, nil
}

// Shared returns the value of a key that every process on the bus agrees on:
// the one that is there, or fresh if there is none.
func (b *Bucket) Shared(ctx context.Context, key string, fresh []byte) ([]byte, error) {
	first, err := b.Create(ctx, key, fresh)
	if err != nil || first {
		return fresh, err
	}
	return b.Get(ctx, key)
}

// listTime bounds the listing of a bucket's keys.
const listTime = 5 * time.Second

// Each calls f with every key that begins with prefix, which ends with a dot,
// and its value, in no order.
func (b *Bucket) Each(ctx context.Context, prefix string, f func(key string, value []byte)) error {
	kv, err := b.open(ctx)
	if err != nil {
		return wire.NotReached(err)
	}
	// The list of a bucket that is deleted meanwhile never ends.
	listing, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	keys, err := kv.ListKeysFiltered(listing, prefix+">")
	if err != nil {
		return wire.NotReached(err)
	}
	var all []string
	for key := range keys.Keys() {
		all = append(all, key)
	}
	if err := listing.Err(); err != nil {
		return wire.NotReached(err)
	}
	for _, key := range all {
		value, err := b.Get(ctx, key)
		if errors.Is(err, ErrNoKey) {
			continue // gone since
		}
		if err != nil {
			return err
		}
		f(key, value)
	}
	return ctx.Err()
}

// All calls f with every key and its value, in no order. It costs one read of
// the bucket, however many keys there are. The error is that of JetStream.
func (b *Bucket) All(ctx context.Context, f func(key string, value []byte)) error {
	cons, err := b.conn.js.OrderedConsumer(ctx, "KV_"+b.name, jetstream.OrderedConsumerConfig{
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
		if !wire.Deleted(msg.Headers()) {
			f(subject.KeyOf(b.name, msg.Subject()), msg.Data())
		}
	}
	return batch.Error()
}
