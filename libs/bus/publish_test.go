package bus_test

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// The first message that waits for an acknowledgement starts a goroutine of nats.go, which stays
// forever if the connection is closed before the goroutine listens. TestMain looks for it.
func TestCloseDuringFirstPublish(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	for range 50 {
		conn := bustest.Join(t, url)
		js, err := jetstream.New(conn.NATS())
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { _, _ = conn.PublishAsync(js, nats.NewMsg("any.subject")) }) // before or after the end
		both.Go(conn.Close)
		both.Wait()
	}
}
