package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

func swapping(t *testing.T) (*bustest.Network, *bus.Bucket, *bus.Conn) {
	t.Helper()
	url := bustest.Server(t)
	bustest.Connect(t, url) // creates the buckets
	n := &bustest.Network{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "test", Logger: bustest.Logger(t), Dialer: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return n, conn.Bucket(bus.SessionsBucket), conn
}

// rounds repeats a test that a busy machine may fail: a lost connection is waited for only half a
// second.
func rounds(t *testing.T, conn *bus.Conn, try func() error) {
	t.Helper()
	var err error
	for range 10 {
		bustest.Eventually(t, "the connection is there", conn.Connected)
		if err = try(); err == nil {
			return
		}
	}
	t.Error(err)
}

// While another server is being found, senders wait; a request that the old server did not answer
// goes to the new one.
func TestAnotherServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	n, bucket, conn := swapping(t)
	put := func() <-chan error {
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
			defer cancel()
			ended <- bucket.Put(ctx, "k", []byte("v"))
		}()
		return ended
	}
	rounds(t, conn, func() error {
		n.Cut()
		defer n.Mend()
		bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
		ended := put()
		select {
		case err := <-ended: // it was refused, and not waited for
			return err
		case <-time.After(10 * time.Millisecond):
		}
		n.Mend()
		return <-ended
	})
	rounds(t, conn, func() error {
		n.Mute()
		ended := put()
		select {
		case err := <-ended:
			t.Fatalf("a request that was lost is answered: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		n.Cut()
		n.Mend()
		return <-ended
	})
}

// The wait for another server is subtracted from the call's time at the instance. Otherwise the
// call would run there after its caller has given up.
func TestWaitCountsForTheCall(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	remaining := make(chan time.Duration, 1)
	handle(t, url, func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		d, _ := ctx.Deadline()
		remaining <- time.Until(d)
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	n := &bustest.Network{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "test", Logger: bustest.Logger(t), Dialer: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	caller := callerOn(t, conn)
	rounds(t, conn, func() error {
		n.Cut()
		defer n.Mend()
		bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
		ctx := within(t, bustest.Patience)
		ended := make(chan error, 1)
		go func() {
			_, err := caller.Call(ctx, "svc", toolCall(`{}`), nil)
			ended <- err
		}()
		select {
		case err := <-ended: // it was refused, and not waited for
			return err
		case <-time.After(10 * flow.HopShave):
		}
		// The request was sent after this moment. The time of sending is in neither duration,
		// because a busy machine takes longer than the allowance for a hop.
		mine, _ := ctx.Deadline()
		most := time.Until(mine)
		n.Mend()
		if err := <-ended; err != nil {
			return err
		}
		if theirs := await(t, "the handler runs", remaining); theirs > most {
			t.Errorf("the handler has %v, %v more than its caller had left", theirs, theirs-most)
		}
		return nil
	})
}

// A caller that comes when the bus has been away for long is refused at once.
func TestAwayForLongIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	n, bucket, conn := swapping(t)
	n.Cut()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
	if err := bucket.Put(t.Context(), "k", nil); err == nil || !conn.Away() {
		t.Fatalf("written without a bus: %v", err)
	}
	began := time.Now()
	if err := bucket.Put(t.Context(), "k", nil); err == nil || time.Since(began) > bustest.Promptly {
		t.Errorf("the second: %v after %v", err, time.Since(began))
	}
	// The next loss counts as a new one, even if nothing was sent in between.
	n.Mend()
	bustest.Eventually(t, "the bus is back", conn.Connected)
	n.Cut()
	bustest.Eventually(t, "the next loss is noticed", func() bool { return !conn.Connected() })
	bustest.Eventually(t, "it has only begun", func() bool { return !conn.Away() })
	n.Mend()
	bustest.Eventually(t, "the bus is back", func() bool { return bucket.Put(t.Context(), "k", nil) == nil && !conn.Away() })
}

// If a slow disk answers after the request was repeated, that answer counts.
func TestTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	_, bucket, conn := swapping(t)
	if err := conn.JetStream().DeleteStream(t.Context(), "KV_"+bus.SessionsBucket); err != nil {
		t.Fatal(err)
	}
	var first *nats.Msg
	if _, err := conn.NATS().Subscribe("$KV."+bus.SessionsBucket+".k", func(msg *nats.Msg) {
		if first == nil {
			first = msg
		} else {
			_ = first.Respond([]byte(`{"stream":"KV_sessions","seq":1}`))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := bucket.Put(within(t, bustest.Promptly), "k", nil); err != nil {
		t.Error(err)
	}
}
