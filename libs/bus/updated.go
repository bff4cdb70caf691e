package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Updated says that a resource of a service has changed.
type Updated struct {
	Service string
	URI     string
	// Tenant is whose resource it is; empty for everybody's.
	Tenant string
	// Listed says that the list of the service's resources has changed with it.
	Listed bool
}

func (u Updated) message() (*nats.Msg, error) {
	data, err := proto.Marshal(&busv1.ResourceUpdated{Uri: u.URI, Tenant: u.Tenant, Listed: u.Listed})
	return &nats.Msg{Subject: updatedSubject(u.Service), Data: data}, err
}

// PublishUpdated tells every edge that a resource of the service has changed.
// It is kept for StreamTTL, for clients that were away.
func (c *Conn) PublishUpdated(service, uri string) error {
	msg, err := Updated{Service: service, URI: uri}.message()
	if err != nil {
		return err
	}
	if err := c.nc.PublishMsg(msg); err != nil {
		return publishFault(err)
	}
	return nil
}

// RecordUpdated is PublishUpdated of several in their order; it returns nil
// when the bus has all of them on its disk. After an error some may be told.
func (c *Conn) RecordUpdated(ctx context.Context, all []Updated) error {
	var told []jetstream.PubAckFuture
	for _, u := range all {
		msg, err := u.message()
		if err != nil {
			return err
		}
		future, err := c.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
		if err != nil {
			return publishFault(err)
		}
		told = append(told, future)
	}
	for _, future := range told {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return publishFault(err)
		case <-ctx.Done():
			return publishFault(ctx.Err())
		}
	}
	return nil
}

// OnUpdated calls f for every resource that a service says has changed. f must
// not block. stop ends that.
func (c *Conn) OnUpdated(f func(Updated)) (stop func(), err error) {
	sub, err := c.nc.Subscribe(updatedSubject("*"), func(msg *nats.Msg) {
		readUpdated(msg, f)
	})
	if err != nil {
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func readUpdated(msg *nats.Msg, f func(Updated)) {
	u := &busv1.ResourceUpdated{}
	service := strings.TrimSuffix(strings.TrimPrefix(msg.Subject, eventRoot), updatedVerb)
	if proto.Unmarshal(msg.Data, u) == nil && u.Uri != "" {
		f(Updated{Service: service, URI: u.Uri, Tenant: u.Tenant, Listed: u.Listed})
	}
}

// PublishChanged tells every instance of the service, this one too, that what
// they share has changed: see OnChanged.
func (c *Conn) PublishChanged(service string) error {
	if err := c.nc.Publish(changedSubject(service), nil); err != nil {
		return publishFault(err)
	}
	return nil
}

// OnChanged calls f when an instance of the service says that what all of them
// share, such as a database, has changed, and when the bus is back, since it
// may have been said meanwhile. What is said after it has returned is heard. f
// must not block. stop ends that.
func (c *Conn) OnChanged(ctx context.Context, service string, f func()) (stop func(), err error) {
	sub, err := c.nc.Subscribe(changedSubject(service), func(*nats.Msg) { f() })
	if err != nil {
		return nil, publishFault(err)
	}
	if err := c.Flush(ctx); err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	unhook := c.OnReconnect(f)
	return func() {
		unhook()
		_ = sub.Unsubscribe()
	}, nil
}

// maxMissed bounds the updates that are read for a client that was away.
const maxMissed = 20_000

// UpdatedSince calls f for every resource that changed since then, perhaps more
// than once. all is false when some are not kept any more.
func (c *Conn) UpdatedSince(ctx context.Context, then time.Time, f func(Updated)) (all bool, err error) {
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
