package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// PublishUpdated tells every edge that a resource of the service has changed.
// It is kept for StreamTTL, for clients that were away.
func (c *Conn) PublishUpdated(service, uri string) error {
	data, err := proto.Marshal(&busv1.ResourceUpdated{Uri: uri})
	if err != nil {
		return err
	}
	if err := c.nc.Publish(updatedSubject(service), data); err != nil {
		return publishFault(err)
	}
	return nil
}

// OnUpdated calls f for every resource that a service says has changed. f must
// not block. stop ends that.
func (c *Conn) OnUpdated(f func(service, uri string)) (stop func(), err error) {
	sub, err := c.nc.Subscribe(updatedSubject("*"), func(msg *nats.Msg) {
		readUpdated(msg, f)
	})
	if err != nil {
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func readUpdated(msg *nats.Msg, f func(service, uri string)) {
	updated := &busv1.ResourceUpdated{}
	service := strings.TrimSuffix(strings.TrimPrefix(msg.Subject, eventRoot), updatedVerb)
	if proto.Unmarshal(msg.Data, updated) == nil && updated.Uri != "" {
		f(service, updated.Uri)
	}
}

// maxMissed bounds the updates that are read for a client that was away.
const maxMissed = 20_000

// UpdatedSince calls f for every resource that changed since then, perhaps more
// than once. all is false when some are not kept any more.
func (c *Conn) UpdatedSince(ctx context.Context, then time.Time, f func(service, uri string)) (all bool, err error) {
	if time.Since(then) > StreamTTL {
		return false, nil
	}
	read, most, of := 0, 0, map[string]int{}
	err = c.fetch(ctx, query{Since: &then, Subject: updatedSubject("*")}, func(msg *nats.Msg, _ uint64) bool {
		readUpdated(msg, f)
		read++
		of[msg.Subject]++
		most = max(most, of[msg.Subject])
		return read < maxMissed
	})
	// A subject that is full has made room for its latest.
	return read < maxMissed && most < maxRoundFrames && err == nil, err
}
