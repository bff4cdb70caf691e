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

// Subscribe calls f with each message on a subject. The subscription is active once Flush has
// returned. f must not block. stop ends it.
func (c *Conn) Subscribe(subject string, f nats.MsgHandler) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, f)
	if err != nil {
		return nil, wire.NotSent(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// PublishAsync is js.PublishMsgAsync for a js of this connection, and fails once the connection is
// closed. The first call for a js starts a goroutine of nats.go. That goroutine never ends if the
// connection is closed at the same moment, which PublishAsync prevents.
func (c *Conn) PublishAsync(js jetstream.JetStream, msg *nats.Msg, options ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	c.publishing.RLock()
	defer c.publishing.RUnlock()
	return js.PublishMsgAsync(msg, options...)
}
