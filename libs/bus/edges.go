package bus

import (
	"context"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// edges stands where the service's name does in what edges tell each other. No
// service may have it.
const edges = "edge"

// Gateway is the service that edges are for other services: what is called there
// is any tool, on behalf of the caller's own caller (busv1.Delegation). It is in
// no registry, and no other service may have its name.
const Gateway = "gateway"

// CancelElsewhere tells every edge that a client gave up a request, which one
// of them holds.
func (c *Caller) CancelElsewhere(session string, requestID []byte) error {
	data, err := proto.Marshal(&busv1.ClientCancel{Session: session, RequestId: requestID})
	if err != nil {
		return err
	}
	if err := c.conn.nc.Publish(cancelSubject(edges), data); err != nil {
		return publishFault(err)
	}
	return nil
}

// OnCancelElsewhere calls f for every request that a client gave up at some
// edge. f must not block. stop ends that.
func (c *Caller) OnCancelElsewhere(f func(session string, requestID []byte)) (stop func(), err error) {
	sub, err := c.conn.nc.Subscribe(cancelSubject(edges), func(msg *nats.Msg) {
		gave := &busv1.ClientCancel{}
		if proto.Unmarshal(msg.Data, gave) == nil && gave.Session != "" {
			f(gave.Session, gave.RequestId)
		}
	})
	if err != nil {
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// TellNamesAssigned has every edge look again at whose the names are.
func (c *Conn) TellNamesAssigned(ctx context.Context) error {
	if err := c.nc.Publish(namesSubject, nil); err != nil {
		return publishFault(err)
	}
	return c.Flush(ctx)
}

// OnNamesAssigned calls f when an operator has given a name to another service.
// f must not block. stop ends that.
func (c *Conn) OnNamesAssigned(f func()) (stop func(), err error) {
	sub, err := c.nc.Subscribe(namesSubject, func(*nats.Msg) { f() })
	if err != nil {
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
