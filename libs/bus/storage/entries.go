package storage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

const (
	// batchEntries and batchBytes limit the entries of one request.
	batchEntries, batchBytes = 4096, 8 << 20
)

// entry has the data of an entry that an account needs.
type entry struct {
	subject string
	// size is in bytes, with headers. If the headers are invalid, it is the largest possible size.
	size int64
	// lasts is set if the entry outlives the bucket's age limit, or if its headers are invalid, so
	// that this is unknown.
	lasts bool
}

// entries calls f with each entry of a bucket, the oldest first, and returns how many there
// should be. NATS sends headers and the size of the rest. The message itself says how large
// the headers are; the parsed ones leave parts out.
func (s *Storage) entries(ctx context.Context, one store, age time.Duration, f func(entry)) (read, due int, err error) {
	cons, err := s.conn.JetStream().CreateConsumer(ctx, one.stream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, InactiveThreshold: 5 * time.Second, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return 0, 0, err
	}
	due = int(cons.CachedInfo().NumPending)
	nc := s.conn.NATS()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return 0, due, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for read < due {
		batch := min(batchEntries, due-read)
		ask := fmt.Sprintf(`{"batch":%d,"max_bytes":%d,"expires":%d}`, batch, batchBytes, keepTime.Nanoseconds())
		if err := nc.PublishRequest(subject.Next(one.stream, cons.CachedInfo().Name), sub.Subject, []byte(ask)); err != nil {
			return read, due, err
		}
		came := 0
		for came < batch {
			msg, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return read, due, err
			}
			if msg.Subject == sub.Subject { // the answer to ask ends here
				break
			}
			came++
			f(s.entryOf(msg, age))
		}
		if read += came; came == 0 {
			break // an entry deleted since the count does not arrive
		}
	}
	return read, due, nil
}

func (s *Storage) entryOf(msg *nats.Msg, age time.Duration) entry {
	e := entry{subject: msg.Subject, size: int64(msg.Size() - len(msg.Reply))}
	rest, err := strconv.ParseInt(msg.Header.Get(nats.MsgSize), 10, 64)
	if err != nil {
		e.size, e.lasts = e.size+s.conn.NATS().MaxPayload(), true
		return e
	}
	e.size += rest
	e.lasts = slices.ContainsFunc(msg.Header.Values(jetstream.MsgTTLHeader), func(ttl string) bool { return outlives(ttl, age) })
	return e
}
