package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

const (
	// fetchBatch is how many messages are asked for at a time.
	fetchBatch = 256
	// fetchTime is how long NATS may be silent while a batch is read. There is no limit for a whole
	// batch, because a large answer is one batch and connections may be slow.
	fetchTime = 5 * time.Second
)

// Query selects messages of a stream: from a sequence number or a time on, those that match a
// subject.
type Query struct {
	Seq     uint64     `json:"seq,omitzero"`
	Since   *time.Time `json:"start_time,omitzero"`
	Subject string     `json:"next_by_subj"`
	Batch   int        `json:"batch"`
}

// Fetch gives f the messages of a stream, in order, until there are no more or f returns false. f
// may be slow. Unlike a consumer, Fetch leaves nothing behind at the server (ADR 0004).
func (c *Conn) Fetch(ctx context.Context, stream string, q Query, f func(msg *nats.Msg, seq uint64) bool) error {
	nc := c.nc
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	q.Batch = fetchBatch
	for more := true; more; {
		var batch []*nats.Msg
		if batch, more, err = fetchSome(ctx, nc, stream, sub, q); err != nil {
			return err
		}
		for _, msg := range batch {
			seq, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return err
			}
			q.Seq, q.Since = seq+1, nil
			msg.Subject = msg.Header.Get("Nats-Subject")
			if !f(msg, seq) {
				return nil
			}
		}
	}
	return nil
}

// fetchSome reads one batch, and whether there is another one.
func fetchSome(ctx context.Context, nc *nats.Conn, stream string, sub *nats.Subscription, q Query) (batch []*nats.Msg, more bool, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, false, err
	}
	if err := nc.PublishRequest(subject.Get(stream), sub.Subject, body); err != nil {
		return nil, false, err
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, fetchTime)
		msg, err := sub.NextMsgWithContext(waiting)
		cancel()
		if err != nil {
			return nil, false, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
			batch = append(batch, msg)
		case "204": // the end of the batch
			return batch, msg.Header.Get("Nats-Num-Pending") != "0", nil
		case "404": // nothing there
			return batch, false, nil
		default:
			return nil, false, fmt.Errorf("NATS answers %s %s", status, msg.Header.Get("Description"))
		}
	}
}
