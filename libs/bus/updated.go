package bus

import (
	"strings"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// PublishUpdated tells every edge that a resource of the service has changed.
// It is not kept: an edge that is away does not hear of it.
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
		updated := &busv1.ResourceUpdated{}
		service := strings.TrimSuffix(strings.TrimPrefix(msg.Subject, eventRoot), updatedVerb)
		if proto.Unmarshal(msg.Data, updated) == nil && updated.Uri != "" {
			f(service, updated.Uri)
		}
	})
	if err != nil {
		return nil, publishFault(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
