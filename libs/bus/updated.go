package bus

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// Updated says that a resource of a service, or what it lists for a tenant, has
// changed.
type Updated struct {
	Service string
	URI     string
	// Tenant is whose resource it is; empty for everybody's.
	Tenant string
	// Listed says that the list of the service's resources has changed with it.
	Listed bool
	// Prompts says that the prompts which the service has for the tenant have
	// changed; URI is empty.
	Prompts bool
}

func (u Updated) message() (*nats.Msg, error) {
	data, err := proto.Marshal(&busv1.ResourceUpdated{Uri: u.URI, Tenant: u.Tenant, Listed: u.Listed, Prompts: u.Prompts})
	return &nats.Msg{Subject: subject.Updated(u.Service), Data: data}, err
}

// PublishUpdated tells every edge that a resource of the service has changed.
// It is kept for edges.StreamTTL, for clients that were away.
func (c *Conn) PublishUpdated(service, uri string) error {
	return c.Publish(subject.Updated(service), &busv1.ResourceUpdated{Uri: uri})
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
		future, err := c.PublishAsync(c.js, msg, jetstream.WithRetryAttempts(0))
		if err != nil {
			return wire.NotSent(err)
		}
		told = append(told, future)
	}
	for _, future := range told {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return wire.NotSent(err)
		case <-ctx.Done():
			return wire.NotSent(ctx.Err())
		}
	}
	return nil
}

// PublishChanged tells every instance of the service, this one too, that what
// they share has changed: see OnChanged.
func (c *Conn) PublishChanged(service string) error {
	return c.Publish(subject.Changed(service), nil)
}

// OnChanged calls f when an instance of the service says that what all of them
// share, such as a database, has changed, and when the bus is back, since it
// may have been said meanwhile. What is said after it has returned is heard. f
// must not block. stop ends that.
func (c *Conn) OnChanged(ctx context.Context, service string, f func()) (stop func(), err error) {
	unsubscribe, err := c.Subscribe(subject.Changed(service), func(*nats.Msg) { f() })
	if err != nil {
		return nil, err
	}
	if err := c.Flush(ctx); err != nil {
		unsubscribe()
		return nil, err
	}
	unhook := c.OnReconnect(f)
	return func() { unhook(); unsubscribe() }, nil
}
