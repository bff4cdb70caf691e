package bus_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// noRoom is a Budget without room for any result.
type noRoom struct{}

func (noRoom) Take(int) error {
	return fault.New(fault.Overloaded, "no room").Ran(fault.Yes)
}

// A result for which the caller has no room is not sent to its end.
func TestAResultWithoutRoomIsNotSent(t *testing.T) {
	t.Parallel()
	const size = 15 << 20
	url := bustest.Server(t)
	result := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), size)...), `"}`...)
	s := handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		return &busv1.Result{Json: result}, nil
	})
	caller := newCaller(t, url)
	var sent atomic.Int64
	if _, err := raw(t, url).Subscribe("mcp.reply.svc.>", func(m *nats.Msg) { sent.Add(int64(len(m.Data))) }); err != nil {
		t.Fatal(err)
	}
	const calls = 8
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := caller.CallWith(within(t, bustest.Patience), "svc", toolCall(`{}`), bus.Options{Budget: noRoom{}})
			ended <- err
		}()
	}
	for range calls {
		fails(t, await(t, "a call ends", ended), fault.Overloaded, fault.Yes)
	}
	bustest.Eventually(t, "no call is left", func() bool { return s.Stats().InFlight == 0 })
	if got := sent.Load(); got > calls*size/4 {
		t.Errorf("%d of %d bytes were sent", got, calls*size)
	}
}
