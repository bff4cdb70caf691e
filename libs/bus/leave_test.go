package bus_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// leaver is a service whose tool disconnects its caller, and then runs until it is released or
// cancelled.
type leaver struct {
	url                string
	release, cancelled chan struct{}
}

func newLeaver(t *testing.T) *leaver {
	t.Helper()
	l := &leaver{url: bustest.Server(t), release: make(chan struct{}), cancelled: make(chan struct{}, 1)}
	handle(t, l.url, func(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		out.Disconnect(1500 * time.Millisecond)
		select {
		case <-l.release:
		case <-ctx.Done():
			l.cancelled <- struct{}{}
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	return l
}

// A tool disconnects only callers that allow it.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	t.Run("one that may be left", func(t *testing.T) {
		t.Parallel()
		l := newLeaver(t)
		caller := keepingCaller(t, l.url)
		s := caller.NewStream()
		s.Leavable = true
		frame, err := callOn(caller, t.Context(), s, "svc", toolCall(`{}`), nil)
		if err != nil || frame.GetDisconnect().GetRetryMs() != 1500 {
			t.Fatalf("%v, %v", frame, err)
		}
		close(l.release)
		got := follow(within(t, bustest.Patience), caller, s, s.Last(), nobody)
		if got.err != nil || got.frame.GetResult() == nil || len(got.heard) > 0 || len(l.cancelled) > 0 {
			t.Errorf("%v, %v after %v", got.frame, got.err, got.heard)
		}
	})
	for name, stream := range map[string]func(*edges.Caller) *edges.Stream{
		"one that may not": (*edges.Caller).NewStream, "one without a stream": func(*edges.Caller) *edges.Stream { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeaver(t)
			close(l.release)
			caller := keepingCaller(t, l.url)
			frame, err := callOn(caller, t.Context(), stream(caller), "svc", toolCall(`{}`), nil)
			if err != nil || frame.GetResult() == nil {
				t.Errorf("%v, %v", frame, err)
			}
		})
	}
}

// A follower of a call can cancel it, even if another edge made it.
func TestFollowerCancels(t *testing.T) {
	t.Parallel()
	l := newLeaver(t)
	one, two := newCaller(t, l.url), newCaller(t, l.url)
	s := one.NewStream()
	s.Leavable = true
	if _, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	// Even a follower that stops before it began.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := follow(ctx, two, s, edges.Position{}, somebody)
	fails(t, got.err, fault.Cancelled, fault.Unknown)
	if len(l.cancelled) > 0 {
		t.Error("the call was cancelled before its follower said so")
	}
	two.CancelOn(got.stream, "test")
	await(t, "the handler is cancelled", l.cancelled)
	two.CancelOn(two.NewStream(), "test") // of no call: nothing to do
}

func TestPresent(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	one, two := newCaller(t, url), newCaller(t, url)
	bustest.Eventually(t, "both are on the bus", func() bool {
		return one.Present(t.Context(), two.Edge()) && two.Present(t.Context(), one.Edge())
	})
	for edge, want := range map[string]bool{
		one.Edge(): true, two.Edge(): true, "nobody": false, "": false, "*": false, ">": false, "a.b": false, "x\r\nPING": false,
	} {
		if want && !one.Present(t.Context(), edge) {
			t.Errorf("%q is not present", edge)
		}
		if !want { // unless a busy NATS takes too long to answer
			bustest.Eventually(t, fmt.Sprintf("%q is not present", edge), func() bool { return !one.Present(t.Context(), edge) })
		}
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the edge is gone", func() bool { return !one.Present(t.Context(), two.Edge()) })
}

// TestUpdatedSince reads what changed while a client was away.
func TestUpdatedSince(t *testing.T) {
	t.Parallel()
	since := func(t *testing.T, conn *bus.Conn, then time.Time) (seen map[string]int, all bool) {
		t.Helper()
		seen = map[string]int{}
		all, err := edges.UpdatedSince(within(t, bustest.Patience), conn, then, func(u bus.Updated) { seen[u.Service+" "+u.URI]++ })
		if err != nil {
			t.Fatal(err)
		}
		return seen, all
	}
	publish := func(t *testing.T, conn *bus.Conn, service string, uris ...string) {
		t.Helper()
		for _, uri := range uris {
			if err := conn.PublishUpdated(service, uri); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("what came since, of every service", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		conn, evt := bustest.Connect(t, url), keptOn(t, url)
		began := time.Now()
		if seen, all := since(t, conn, began); len(seen) > 0 || !all {
			t.Errorf("%v, all %v", seen, all)
		}
		publish(t, conn, "a", "before")
		evt.frames()
		between := time.Now()
		publish(t, conn, "a", "one", "two", "one")
		publish(t, conn, "b", "one")
		evt.frames()
		if seen, all := since(t, conn, between); fmt.Sprint(seen) != "map[a one:2 a two:1 b one:1]" || !all {
			t.Errorf("%v, all %v", seen, all)
		}
		if seen, all := since(t, conn, began); len(seen) != 4 || !all {
			t.Errorf("%v, all %v", seen, all)
		}
		if seen, all := since(t, conn, time.Now().Add(time.Hour)); len(seen) != 0 || !all {
			t.Errorf("of the future: %v, all %v", seen, all)
		}
		if _, all := since(t, conn, time.Now().Add(-edges.StreamTTL-time.Second)); all {
			t.Error("all of more than is kept")
		}
	})
	t.Run("more than one batch", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		conn, evt := bustest.Connect(t, url), keptOn(t, url)
		began := time.Now()
		for i := range 700 {
			publish(t, conn, "a", strconv.Itoa(i))
		}
		evt.frames()
		if seen, all := since(t, conn, began); len(seen) != 700 || !all {
			t.Errorf("%d, all %v", len(seen), all)
		}
	})
	t.Run("more of one service than is kept", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		conn, evt := bustest.Connect(t, url), keptOn(t, url)
		began := time.Now()
		uris := make([]string, 4100)
		for i := range uris {
			uris[i] = strconv.Itoa(i)
		}
		publish(t, conn, "a", uris...)
		if _, err := evt.js.Publish(t.Context(), "mcp.evt.marker.updated", nil); err != nil {
			t.Fatal(err)
		}
		seen, all := since(t, conn, began)
		if len(seen) < len(uris) && all {
			t.Errorf("%d of %d are said to be all", len(seen), len(uris))
		}
	})
	t.Run("nothing is kept", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		conn := bustest.Connect(t, url)
		if err := keptOn(t, url).js.DeleteStream(t.Context(), "EVT"); err != nil {
			t.Fatal(err)
		}
		all, err := edges.UpdatedSince(within(t, bustest.Patience), conn, time.Now(), func(bus.Updated) {})
		if all || !fault.Is(err, fault.Unavailable) {
			t.Errorf("all %v, %v", all, err)
		}
	})
}

// Any edge that starts creates a missing stream and updates an old one.
func TestStreamIsMade(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn, evt := bustest.Connect(t, url), keptOn(t, url)
	if err := evt.js.DeleteStream(t.Context(), "EVT"); err != nil {
		t.Fatal(err)
	}
	if _, err := evt.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVT", Subjects: []string{"mcp.evt.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Ensure(t.Context(), conn, storage.Auto); err != nil {
		t.Fatal(err)
	}
	info, err := evt.stream().Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := info.Config; !c.AllowDirect || c.MaxAge != edges.StreamTTL || c.MaxBytes <= 0 || c.MaxMsgsPerSubject <= 0 {
		t.Errorf("configured as %+v", c)
	}
}
