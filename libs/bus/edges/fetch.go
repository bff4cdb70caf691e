package edges

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// fetchBatch is how many messages are asked for at a time.
	fetchBatch = 256
	// fetchTime bounds reading one batch.
	fetchTime = 5 * time.Second
)

// query says what to read of the event stream: from a sequence or a time on,
// what matches a subject.
type query struct {
	Seq     uint64     `json:"seq,omitzero"`
	Since   *time.Time `json:"start_time,omitzero"`
	Subject string     `json:"next_by_subj"`
	Batch   int        `json:"batch"`
}

// fetch gives f what the event stream keeps, in order, until there is no more
// or f returns false. f may take its time. Unlike a consumer fetch leaves
// nothing behind at the server (ADR 0004).
func fetch(ctx context.Context, conn *bus.Conn, q query, f func(msg *nats.Msg, seq uint64) bool) error {
	nc := conn.NATS()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return wire.NotSent(err).Ran(fault.Unknown)
	}
	defer func() { _ = sub.Unsubscribe() }()
	q.Batch = fetchBatch
	for more := true; more; {
		var batch []*nats.Msg
		if batch, more, err = fetchSome(ctx, nc, sub, q); err != nil {
			return notKept(err)
		}
		for _, msg := range batch {
			seq, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return notKept(err)
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
func fetchSome(ctx context.Context, nc *nats.Conn, sub *nats.Subscription, q query) (batch []*nats.Msg, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return nil, false, err
	}
	if err := nc.PublishRequest(subject.Get(EventStream.Name), sub.Subject, body); err != nil {
		return nil, false, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
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

// notKept leaves open whether the call ran whose answer cannot be read.
func notKept(err error) error {
	return fault.New(fault.Unavailable, "what is kept for clients is not reachable; try again shortly").Ran(fault.Unknown).Because(err)
}
