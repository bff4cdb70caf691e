package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
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
	AccessBucket    = "access"
	LimitsBucket    = "limits"
	// DefinitionsBucket has the definitions of tools that services announced, AcceptedBucket those
	// that an operator accepted.
	DefinitionsBucket = "definitions"
	AcceptedBucket    = "accepted"
)

// Bucket is one key-value bucket, shared by every process on the bus. The bucket itself may be
// created, or become reachable, later. Errors are *fault.Error with reason Unavailable unless a
// method says otherwise.
//
// It works on the subjects of the keys, as NATS's own client does inside, and so
// needs no right to ask for the bucket itself: services read and write a few keys.
type Bucket struct {
	conn *Conn
	name string
}

// Bucket returns a bucket by its name.
func (c *Conn) Bucket(name string) *Bucket { return &Bucket{conn: c, name: name} }

// ErrNoKey means that a key does not exist, or no longer exists.
var ErrNoKey = errors.New("no such key")

// maxKey is the longest key in bytes: it becomes part of a subject, and NATS closes the connection
// for good if one is too long.
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
	value, revision, there, err := b.last(ctx, key)
	if !there {
		return nil, 0, err
	}
	return value, revision, err
}

// last returns the last write of a key: its value, if the key exists, and the revision, also of a
// deletion.
func (b *Bucket) last(ctx context.Context, key string) (value []byte, revision uint64, there bool, err error) {
	if !validKey(key) {
		return nil, 0, false, nil
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bucketTime)
		defer cancel()
	}
	msg, err := repeated(ctx, b.conn, func(ctx context.Context) (*nats.Msg, error) {
		return b.conn.nc.RequestWithContext(ctx, subject.GetKey(b.name, key), nil)
	})
	if err != nil {
		return nil, 0, false, wire.NotReached(err)
	}
	switch status := msg.Header.Get("Status"); status {
	case "":
	case "404":
		if b.conn.asksLeader && b.conn.Clustered() {
			return b.fromLeader(ctx, key)
		}
		return nil, 0, false, nil
	default:
		return nil, 0, false, wire.NotReached(fmt.Errorf("NATS answers %s %s", status, msg.Header.Get("Description")))
	}
	if revision, err = strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return nil, 0, false, wire.NotReached(err)
	}
	return msg.Data, revision, !wire.Deleted(msg.Header), nil
}

// bucketTime limits an operation whose context has no deadline.
const bucketTime = 5 * time.Second

// validKey reports whether a key is valid: it becomes part of a subject.
func validKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_=/.", rune(c)) ||
			c == '.' && (i == 0 || i == len(key)-1 || key[i-1] == '.') {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= maxKey
}

// Put stores a value. The key's age begins again.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) error {
	_, err := b.write(ctx, key, value, nil)
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
	now, err := b.write(ctx, key, value, nil, jetstream.WithExpectLastSequencePerSubject(revision))
	if now > 0 || err != nil || revision > 0 {
		return now, err
	}
	// The key may hold a deletion marker.
	_, gone, there, err := b.last(ctx, key)
	if err != nil || there || gone == 0 {
		return 0, err
	}
	return b.write(ctx, key, value, nil, jetstream.WithExpectLastSequencePerSubject(gone))
}

// write returns 0 if the key's last write is not the expected one.
func (b *Bucket) write(ctx context.Context, key string, value []byte, header nats.Header, expect ...jetstream.PublishOpt) (uint64, error) {
	if len(key) > maxKey {
		return 0, fault.New(fault.TooLarge, "a key is longer than %d bytes", maxKey)
	}
	if !validKey(key) {
		return 0, wire.NotReached(jetstream.ErrInvalidKey)
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	store := func(ctx context.Context) (*jetstream.PubAck, error) {
		own := maps.Clone(header) // the library writes into it
		return b.conn.js.PublishMsg(ctx, &nats.Msg{Subject: subject.Key(b.name, key), Data: value, Header: own}, expect...)
	}
	var ack *jetstream.PubAck
	var err error
	if len(expect) == 0 {
		ack, err = repeated(ctx, b.conn, store)
	} else { // a second one could find what the first has written
		b.conn.Settle(ctx)
		ack, err = store(ctx)
	}
	switch {
	case err == nil:
		return ack.Sequence, nil
	case outrun(err):
		return 0, nil
	}
	return 0, wire.NotReached(err)
}

// outrun reports whether the error says that another writer was faster. A cluster has a separate
// code for a write that is still under way.
func outrun(err error) bool {
	var refused jetstream.JetStreamError
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	if !errors.As(err, &refused) || refused.APIError() == nil {
		return false
	}
	code := refused.APIError().ErrorCode
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// Change replaces the value of a key by the result of f, atomically: if another writer is faster, f
// is called again with the new value. An error of f is returned unchanged; ErrNoKey means that the
// key does not exist.
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

// Swap repeats try, which reads, changes and writes, until try returns true (no other writer was
// faster) or an error. With too many writers it gives up with Overloaded.
func Swap(try func() (done bool, err error)) error {
	const tries = 16
	for range tries {
		if done, err := try(); done || err != nil {
			return err
		}
	}
	return fault.New(fault.Overloaded, "too many writers of one key; try again shortly")
}

// Delete removes a key. A missing key is not an error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	return b.remove(ctx, key)
}

// DeleteAt removes a key whose revision is still the one that Look or Replace returned. If somebody
// else has written or removed it since, DeleteAt does nothing and returns nil.
func (b *Bucket) DeleteAt(ctx context.Context, key string, revision uint64) error {
	return b.remove(ctx, key, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (b *Bucket) remove(ctx context.Context, key string, expect ...jetstream.PublishOpt) error {
	if !validKey(key) {
		return nil
	}
	header := nats.Header{"KV-Operation": {"DEL"}}
	if fading[b.name] {
		header.Set(jetstream.MsgTTLHeader, deletedFor)
	}
	_, err := b.write(ctx, key, nil, header, expect...)
	return err
}

// deletedFor is how long a bucket with keys of clients keeps a deletion marker. Otherwise a client
// could fill the bucket with deletion markers.
const deletedFor = "1m"

// fading are the buckets with keys of clients. All of them allow an expiry time for single
// messages.
var fading = map[string]bool{SessionsBucket: true, StreamsBucket: true, ApprovalsBucket: true, OutcomesBucket: true, TasksBucket: true}

// OnWrite calls f with the key at every later write and deletion, by any process, of one key or of
// all (">"). f must not block. stop ends that.
func (b *Bucket) OnWrite(keys string, f func(key string)) (stop func(), err error) {
	return b.OnValue(keys, func(key string, _ []byte) { f(key) })
}

// OnValue is OnWrite with the value; nil for a deleted key. The value may arrive before it is
// stored.
func (b *Bucket) OnValue(keys string, f func(key string, value []byte)) (stop func(), err error) {
	stop, err = b.conn.Subscribe(subject.Key(b.name, keys), func(msg *nats.Msg) {
		value := msg.Data
		if wire.Deleted(msg.Header) {
			value = nil
		}
		f(subject.KeyOf(b.name, msg.Subject), value)
	})
	if err != nil {
		return nil, err
	}
	if err := b.conn.nc.FlushTimeout(5 * time.Second); err != nil { // the subscription is active when OnValue returns
		stop()
		return nil, wire.NotSent(err)
	}
	return stop, nil
}

// Shared returns the value of a key that every process on the bus agrees on: the stored one, or
// fresh if the key has no value yet.
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
	listing, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	err := b.conn.Fetch(listing, "KV_"+b.name, Query{Seq: 1, Subject: subject.Key(b.name, prefix+">")}, func(msg *nats.Msg, _ uint64) bool {
		if !wire.Deleted(msg.Header) {
			f(subject.KeyOf(b.name, msg.Subject), msg.Data)
		}
		return true
	})
	if err != nil {
		return wire.NotReached(err)
	}
	return ctx.Err()
}

// All calls f with every key and its value, in no order. It costs one read of the bucket, however
// many keys there are. Errors come from JetStream.
func (b *Bucket) All(ctx context.Context, f func(key string, value []byte)) error {
	return b.AllWritten(ctx, func(key string, value []byte, _ time.Time) { f(key, value) })
}

// AllWritten is All with the time of each write, by the clock of the NATS server.
func (b *Bucket) AllWritten(ctx context.Context, f func(key string, value []byte, at time.Time)) error {
	// A key that expired after it was counted does not arrive; the next attempt does not count it.
	for wait := 2 * time.Second; ; wait *= 2 {
		all, missing, err := b.all(ctx, wait)
		switch {
		case err == nil && missing == 0:
			for _, msg := range all {
				kept, err := msg.Metadata()
				if err != nil {
					return err
				}
				f(subject.KeyOf(b.name, msg.Subject()), msg.Data(), kept.Timestamp)
			}
			return nil
		case missing == 0: // nothing was asked for yet
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case wait >= longestList:
			return errors.Join(err, fmt.Errorf("%d keys of bucket %s did not come in %v", missing, b.name, wait))
		}
	}
}

// longestList is how long the last attempt of All takes.
const longestList = 8 * time.Second

// all is one attempt of All. missing counts the keys that did not arrive in time.
func (b *Bucket) all(ctx context.Context, wait time.Duration) (all []jetstream.Msg, missing int, err error) {
	cons, err := b.conn.js.OrderedConsumer(ctx, "KV_"+b.name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, InactiveThreshold: 5 * time.Second,
	})
	if err != nil {
		return nil, 0, err
	}
	missing = int(cons.CachedInfo().NumPending)
	if missing == 0 {
		return nil, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	batch, err := cons.Fetch(missing, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, missing, err
	}
	for msg := range batch.Messages() {
		if missing--; !wire.Deleted(msg.Headers()) {
			all = append(all, msg)
		}
	}
	return all, missing, batch.Error()
}
