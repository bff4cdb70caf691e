package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

func swapping(t *testing.T) (*bustest.Network, *bus.Bucket, *bus.Conn) {
	t.Helper()
	url := bustest.Server(t)
	bustest.Connect(t, url) // makes the buckets
	n := &bustest.Network{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "test", Logger: bustest.Logger(t), Dialer: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return n, conn.Bucket(bus.SessionsBucket), conn
}

// rounds tries again what a machine that is busy may miss: half a second is all that a
// connection is waited for.
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

// While another server is found, who sends waits for it; what the old one did not answer
// is asked of the new one.
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

// Who comes when the bus has been away for long is refused at once.
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
	n.Mend()
	bustest.Eventually(t, "the bus is back", func() bool { return bucket.Put(t.Context(), "k", nil) == nil && !conn.Away() })
}
