package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Without the stream, or with a full one, calls work as if it were not needed.
func TestCallsNeedNoStream(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*testing.T, kept){
		"deleted": func(t *testing.T, k kept) {
			if err := k.js.DeleteStream(t.Context(), "EVT"); err != nil {
				t.Fatal(err)
			}
		},
		"full": func(t *testing.T, k kept) {
			if err := k.js.DeleteStream(t.Context(), "EVT"); err != nil {
				t.Fatal(err)
			}
			_, err := k.js.CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "EVT", Subjects: []string{"mcp.evt.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew, AllowDirect: true,
			})
			if err == nil {
				_, err = k.js.Publish(t.Context(), "mcp.evt.marker.updated", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			ended := make(chan struct{}, 1)
			handle(t, url, func(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
				for i := range 3 {
					out.Progress(&busv1.Progress{Progress: float64(i + 1)})
				}
				switch {
				case req.Name == "ask" && req.InputResponses == nil:
					return &busv1.InputRequired{InputRequests: []byte(`{}`)}, nil
				case req.Name == "hang":
					<-ctx.Done()
					ended <- struct{}{}
				}
				return &busv1.Result{Json: []byte(`{}`)}, nil
			})
			caller, other := keepingCaller(t, url), keepingCaller(t, url)
			breakIt(t, keptOn(t, url))
			s, heard := caller.NewStream(), 0
			for _, r := range []*busv1.Request{{Name: "ask"}, {Name: "ask", InputResponses: []byte(`{}`)}, {Name: "plain"}} {
				r.Method = "tools/call"
				began := time.Now()
				if _, err := callOn(caller, t.Context(), s, "svc", r, func(f *busv1.Frame) {
					if f.GetProgress() != nil {
						heard++
					}
				}); err != nil {
					t.Errorf("%s: %v", r.Name, err)
				}
				s.KeepAll = true
				if took := time.Since(began); took > bustest.Promptly {
					t.Errorf("took %v", took)
				}
			}
			if heard != 9 {
				t.Errorf("%d frames before the ends", heard)
			}
			if err := caller.Keep(t.Context(), s, &busv1.Sent{Json: []byte(`{}`)}); err == nil {
				t.Error("a message is said to be kept")
			}
			// A client that comes back is told, even while the call runs.
			began, running := time.Now(), caller.NewStream()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			started := make(chan struct{}, 100)
			go func() {
				defer close(done)
				_, _ = callOn(caller, ctx, running, "svc", &busv1.Request{Method: "tools/call", Name: "hang"}, func(*busv1.Frame) { started <- struct{}{} })
			}()
			await(t, "the call runs", started)
			_, err := other.Follow(within(t, bustest.Patience), &edges.Stream{Name: running.Name, Home: running.Home}, edges.Position{}, func(*busv1.Frame) {}, func() bool { return false })
			var f *fault.Error
			if !errors.As(err, &f) || f.Executed != fault.Unknown || f.Reason == fault.Cancelled || f.Reason == fault.DeadlineExceeded {
				t.Errorf("follow: %v", err)
			}
			if took := time.Since(began); took > bustest.Promptly {
				t.Errorf("said after %v", took)
			}
			cancel()
			<-done
			await(t, "the call is cancelled", ended)
			if _, err := other.Follow(within(t, bustest.Patience), &edges.Stream{Name: s.Name, Home: s.Home}, edges.Position{}, nil, func() bool { return false }); err == nil {
				t.Error("follows what is not there")
			}
		})
	}
}
