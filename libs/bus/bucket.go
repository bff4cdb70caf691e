package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Lifetimes on the bus.
const (
	// BeatEvery is how often an instance announces itself, give or take a fifth.
	BeatEvery = 5 * time.Second
	// BeatTTL is how long an instance counts as there without a beat.
	BeatTTL = 15 * time.Second
	// catalogueTTL outlives every edge's need to read a catalogue; instances
	// write theirs again well within it.
	catalogueTTL   = time.Hour
	catalogueEvery = 20 * time.Minute
	// StreamTTL is how long a client may come back for an answer.
	StreamTTL = 30 * time.Minute
	// approvalTTL outlives what may refer to an approval.
	approvalTTL = 2 * time.Hour
	// OutcomeTTL is how long an idempotency key is remembered.
	OutcomeTTL = 24 * time.Hour
	// keyTTL outlives what edges use a key for.
	keyTTL = 48 * time.Hour
	// NameTTL is how long a name is kept for a service that is not seen.
	NameTTL = 7 * 24 * time.Hour
	// SessionTTL is how long a legacy session lives without being renewed.
	SessionTTL = 24 * time.Hour
)

// buckets are the key-value buckets of the bus. Age is a bucket-wide limit and
// writes are plain puts: a per-key TTL would be dropped by the next write.
var buckets = []jetstream.KeyValueConfig{
	{Bucket: RegistryBucket, Description: "who is there: <service>.<instance>", TTL: BeatTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 4 << 10, MaxBytes: 64 << 20},
	{Bucket: CatalogueBucket, Description: "what services offer: <service>.<digest>", TTL: catalogueTTL, History: 1, LimitMarkerTTL: time.Minute, MaxBytes: 256 << 20},
	{Bucket: SessionsBucket, Description: "legacy MCP sessions: <id>", TTL: SessionTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 64 << 10, MaxBytes: 256 << 20},
	{Bucket: StreamsBucket, Description: "answers that clients may come back for: <name>", TTL: StreamTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 128 << 10, MaxBytes: 256 << 20},
	{Bucket: ApprovalsBucket, Description: "calls that wait for a person, and approvals that were used", TTL: approvalTTL, History: 1, LimitMarkerTTL: time.Minute, MaxBytes: 64 << 20},
	{Bucket: OutcomesBucket, Description: "how calls with an idempotency key ended: <digest of principal and key>", TTL: OutcomeTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 128 << 10, MaxBytes: 128 << 20},
	{Bucket: KeysBucket, Description: "secrets that edges share: <use>.<period>", TTL: keyTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 4 << 10, MaxBytes: 1 << 20},
	{Bucket: AuditBucket, Description: "what the audit trail is checked against: head.<chain>, key.<id>; the key of its digests", History: 1, MaxValueSize: 4 << 10, MaxBytes: 16 << 20},
	{Bucket: NamesBucket, Description: "whose a name is: <kind>.<digest of name>", TTL: NameTTL, History: 1, LimitMarkerTTL: time.Minute, MaxValueSize: 4 << 10, MaxBytes: 64 << 20},
	{Bucket: TasksBucket, Description: "tasks: <service>.<token>", TTL: taskAge, History: 1, LimitMarkerTTL: time.Minute, MaxBytes: 512 << 20},
}

// Bucket is one key-value bucket, shared by every process on the bus.
type Bucket struct {
	conn *Conn
	kv   *openKV
}

// Bucket opens a bucket that EnsureBuckets made, or will make: one that was out
// of reach then is opened when it is used.
func (c *Conn) Bucket(ctx context.Context, name string) (*Bucket, error) {
	kv, err := c.openKV(ctx, name)
	return &Bucket{conn: c, kv: kv}, err
}

// ErrNoKey means that a key is not there, or no longer.
var ErrNoKey = errors.New("no such key")

// maxKey bounds a key: it becomes part of a subject, and NATS hangs up for good
// on one that is too long.
const maxKey = 256

// Get returns the value of a key, or ErrNoKey.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	if len(key) > maxKey {
		return nil, ErrNoKey
	}
	entry, err := b.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey):
		return nil, ErrNoKey
	case err != nil:
		return nil, fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	return entry.Value(), nil
}

// Look returns the value of a key and its revision; no value and no error when
// the key is not there.
func (b *Bucket) Look(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	entry, err := b.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	return entry.Value(), entry.Revision(), nil
}

// Replace stores a value in place of the revision that Look returned, or where
// there is none for 0, and returns the revision that it has now; 0 when somebody
// else wrote in between.
func (b *Bucket) Replace(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if len(key) > maxKey {
		return 0, fault.New(fault.TooLarge, "a key is longer than %d bytes", maxKey)
	}
	var now uint64
	var err error
	if revision == 0 {
		now, err = b.kv.Create(ctx, key, value)
	} else {
		now, err = b.kv.Update(ctx, key, value, revision)
	}
	switch {
	case err == nil:
		return now, nil
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return 0, nil
	}
	return 0, fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
}

// Put stores a value; its age starts anew.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) error {
	if len(key) > maxKey {
		return fault.New(fault.TooLarge, "a key is longer than %d bytes", maxKey)
	}
	if _, err := b.kv.Put(ctx, key, value); err != nil {
		return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	return nil
}

// Change replaces the value of a key by what f makes of it, as one step: when
// somebody else writes in between, f is called again with their value. An error
// of f is returned as it is.
func (b *Bucket) Change(ctx context.Context, key string, f func([]byte) ([]byte, error)) error {
	const tries = 16
	if len(key) > maxKey {
		return ErrNoKey
	}
	for range tries {
		entry, err := b.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
			return ErrNoKey
		}
		if err != nil {
			return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
		}
		value, err := f(entry.Value())
		if err != nil {
			return err
		}
		_, err = b.kv.Update(ctx, key, value, entry.Revision())
		if err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) && !errors.Is(err, jetstream.ErrKeyExists) {
			return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
		}
	}
	return fault.New(fault.Overloaded, "too many writers of one key; try again shortly")
}

// Delete removes a key; one that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if len(key) > maxKey {
		return nil
	}
	if err := b.kv.Purge(ctx, key); err != nil && !errors.Is(err, jetstream.ErrInvalidKey) {
		return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	return nil
}

// DeleteAt removes a key whose revision is still the one that Look or Replace
// returned. One that somebody else wrote since, or removed, is no error.
func (b *Bucket) DeleteAt(ctx context.Context, key string, revision uint64) error {
	err := b.kv.Purge(ctx, key, jetstream.LastRevision(revision))
	if err == nil || errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrInvalidKey) {
		return nil
	}
	var refused jetstream.JetStreamError
	if errors.As(err, &refused) && refused.APIError() != nil && refused.APIError().ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return nil
	}
	return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
}

// OnWrite calls f with the key of every write and deletion from now on,
// whoever makes it. f must not block. stop ends that.
func (b *Bucket) OnWrite(f func(key string)) (stop func(), err error) {
	prefix := "$KV." + b.kv.name + "."
	sub, err := b.conn.nc.Subscribe(prefix+">", func(msg *nats.Msg) { f(strings.TrimPrefix(msg.Subject, prefix)) })
	if err != nil {
		return nil, publishFault(err)
	}
	if err := b.conn.nc.FlushTimeout(5 * time.Second); err != nil { // from now on, not from soon
		_ = sub.Unsubscribe()
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// Create stores a value unless the key has one, and reports whether it did.
func (b *Bucket) Create(ctx context.Context, key string, value []byte) (bool, error) {
	if len(key) > maxKey {
		return false, fault.New(fault.TooLarge, "a key is longer than %d bytes", maxKey)
	}
	_, err := b.kv.Create(ctx, key, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return false, nil
	}
	if err != nil {
		return false, fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	return true, nil
}

// Shared returns the value of a key that every process on the bus agrees on:
// the one that is there, or fresh if there is none. While KeepBuckets runs, a
// bucket that was lost gets it back.
func (b *Bucket) Shared(ctx context.Context, key string, fresh []byte) ([]byte, error) {
	first, err := b.Create(ctx, key, fresh)
	if err == nil && !first {
		fresh, err = b.Get(ctx, key)
	}
	if err == nil {
		b.conn.remember(b.kv.name, key, fresh)
	}
	return fresh, err
}
