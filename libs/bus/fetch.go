package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// fetchBatch is how many messages are asked for at a time.
	fetchBatch = 256
	// fetchTime bounds reading all there is.
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
// or f returns false. Unlike a consumer it leaves nothing behind at the server
// (ADR 0004).
func (c *Conn) fetch(ctx context.Context, q query, f func(msg *nats.Msg, seq uint64) bool) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	sub, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		return publishFault(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	q.Batch = fetchBatch
	for more := true; more; {
		body, err := json.Marshal(q)
		if err != nil {
			return err
		}
		if err := c.nc.PublishRequest("$JS.API.DIRECT.GET."+eventStream, sub.Subject, body); err != nil {
			return publishFault(err)
		}
		for {
			msg, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return notKept(err)
			}
			status := msg.Header.Get("Status")
			if status == "204" || status == "404" { // the end of a batch; nothing there
				more = status == "204" && msg.Header.Get("Nats-Num-Pending") != "0"
				break
			}
			if status != "" {
				return notKept(fmt.Errorf("NATS answers %s %s", status, msg.Header.Get("Description")))
			}
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

// notKept leaves open whether the call ran whose answer cannot be read.
func notKept(err error) error {
	return fault.New(fault.Unavailable, "what is kept for clients is not reachable; try again shortly").Ran(fault.Unknown).Because(err)
}
