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

// Updated says that a resource of a service, or its list for a tenant, has changed.
type Updated struct {
	Service string
	URI     string
	// Tenant owns the resource; empty for all.
	Tenant string
	// Listed is set if the list of the service's resources has changed too.
	Listed bool
	// Prompts is set if the service's prompts for the tenant have changed; URI is then empty.
	Prompts bool
}

func (u Updated) message() (*nats.Msg, error) {
	data, err := proto.Marshal(&busv1.ResourceUpdated{Uri: u.URI, Tenant: u.Tenant, Listed: u.Listed, Prompts: u.Prompts})
	return &nats.Msg{Subject: subject.Updated(u.Service), Data: data}, err
}

// PublishUpdated tells every edge that a resource of the service has changed. The message is kept
// for edges.StreamTTL, for clients that were away.
func (c *Conn) PublishUpdated(service, uri string) error {
	return c.Publish(subject.Updated(service), &busv1.ResourceUpdated{Uri: uri})
}

// RecordUpdated announces several changes in their order. It returns nil once the bus has stored
// all of them. After an error some may have been announced.
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

// PublishChanged tells every instance of the service, including this one, that their shared data
// has changed: see OnChanged.
func (c *Conn) PublishChanged(service string) error {
	return c.Publish(subject.Changed(service), nil)
}

// OnChanged calls f when an instance of the service reports that their shared data, such as a
// database, has changed. It also calls f when the bus is back, because a report may have been
// missed. Reports after OnChanged has returned are heard. f must not block. stop ends it.
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
