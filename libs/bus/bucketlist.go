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

// Each calls f with every key that begins with prefix, which ends with a dot,
// and its value, in no order.
func (b *Bucket) Each(ctx context.Context, prefix string, f func(key string, value []byte)) error {
	keys, err := b.kv.ListKeysFiltered(ctx, prefix+">")
	if err != nil {
		return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	var all []string
	for key := range keys.Keys() {
		all = append(all, key)
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
// the bucket, however many keys there are.
func (b *Bucket) All(ctx context.Context, f func(key string, value []byte)) error {
	prefix := "$KV." + b.kv.name + "."
	return b.conn.lastOfEach(ctx, "KV_"+b.kv.name, func(msg jetstream.Msg) {
		if !isDeletion(msg.Headers()) {
			f(strings.TrimPrefix(msg.Subject(), prefix), msg.Data())
		}
	})
}

// lastOfEach calls f with the last message of each subject of a stream.
func (c *Conn) lastOfEach(ctx context.Context, stream string, f func(jetstream.Msg)) error {
	cons, err := c.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
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
		f(msg)
	}
	return batch.Error()
}

// isDeletion reports whether a message of a bucket says that its key is gone.
func isDeletion(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}
