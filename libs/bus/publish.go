package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Publish sends a message, nil for an empty one. The error is a *fault.Error:
// nothing left this process.
func (c *Conn) Publish(subject string, m proto.Message) error {
	var data []byte
	if m != nil {
		var err error
		if data, err = proto.Marshal(m); err != nil {
			return fault.New(fault.Internal, "a message of the bus cannot be encoded").Because(err)
		}
	}
	if err := c.nc.Publish(subject, data); err != nil {
		return wire.NotSent(err)
	}
	return nil
}

// Subscribe calls f with what is published from soon on; Flush says from when.
// f must not block. stop ends that.
func (c *Conn) Subscribe(subject string, f nats.MsgHandler) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, f)
	if err != nil {
		return nil, wire.NotSent(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// PublishAsync is js.PublishMsgAsync, where js is of this connection, and fails once the
// connection is closed. The first one of a js starts a goroutine of nats.go, which ends
// with the connection unless it is closed at that very moment: then it never does.
func (c *Conn) PublishAsync(js jetstream.JetStream, msg *nats.Msg, options ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	c.publishing.RLock()
	defer c.publishing.RUnlock()
	return js.PublishMsgAsync(msg, options...)
}
