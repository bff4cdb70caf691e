package bus_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	var ran atomic.Int32
	_, served := serve(t, ns.URL, bus.ServerConfig{Service: "svc", Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.Name == "counted" {
			ran.Add(1)
		}
		return &busv1.Result{Json: req.Arguments}, nil
	}})
	conn := bustest.Connect(t, ns.URL)
	caller, err := bus.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	var reconnects atomic.Int32
	conn.OnReconnect(func() { reconnects.Add(1) })
	forgotten := conn.OnReconnect(func() { t.Error("a hook that was taken back") })
	forgotten()
	for outage := range 2 {
		ns.Stop()
		bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() && !served.Connected() })
		for range 20 {
			start := time.Now()
			_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: "counted"}, nil)
			fails(t, err, fault.Unavailable, fault.No)
			if took := time.Since(start); took > bustest.Promptly {
				t.Errorf("refused after %v", took)
			}
		}
		ns.Restart()
		back := time.Now()
		bustest.Eventually(t, "calls work again", func() bool {
			_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
			return err == nil
		})
		if took := time.Since(back); took > bustest.Promptly {
			t.Errorf("back after %v", took)
		}
		bustest.Eventually(t, "the hook runs", func() bool { return int(reconnects.Load()) == outage+1 })
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d calls made during the outage ran after it", n)
	}
}

// A call in flight when the bus goes away ends soon, not at its deadline.
func TestOutageDuringCall(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	started, release := make(chan struct{}, 1), make(chan struct{})
	serve(t, ns.URL, bus.ServerConfig{Service: "svc", Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		started <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	t.Cleanup(func() { close(release) })
	caller := newCaller(t, ns.URL)
	ended := make(chan error, 1)
	go func() {
		_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		ended <- err
	}()
	await(t, "the call runs", started)
	start := time.Now()
	ns.Stop()
	fails(t, await(t, "the call ends", ended), fault.PeerLost, fault.Unknown)
	if took := time.Since(start); took > bustest.Promptly {
		t.Errorf("ended after %v", took)
	}
}

func TestConnectWaitsForTheBus(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	ns.Stop()
	_, err := bus.Connect(within(t, 300*time.Millisecond), bus.Config{URL: ns.URL, Logger: bustest.Logger(t)})
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), ns.URL) {
		t.Errorf("error %v does not name %s", err, ns.URL)
	}
	connected := make(chan error, 1)
	go func() {
		conn, err := bus.Connect(within(t, bustest.Patience), bus.Config{URL: ns.URL, Logger: bustest.Logger(t)})
		if err == nil {
			conn.Close()
			conn.Close()
		}
		connected <- err
	}()
	ns.Restart()
	if err := await(t, "the connection is made", connected); err != nil {
		t.Error(err)
	}
}

func TestConnectErrorKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"nats://user:hunter2@127.0.0.1:1", "nats://hunter2@127.0.0.1:1", "nats://user:hunter2@127.0.0.1:1,nats://user:hunter2@127.0.0.1:2"} {
		_, err := bus.Connect(within(t, 200*time.Millisecond), bus.Config{URL: u, Logger: bustest.Logger(t)})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v", err)
		}
	}
	if _, err := bus.Connect(t.Context(), bus.Config{URL: "nats://%zz", Logger: bustest.Logger(t)}); err == nil {
		t.Error("malformed URL accepted")
	}
}

// NATS reports a missing permission only after the fact; a server that lacks
// one must not seem to have started.
func TestServeNoticesMissingPermission(t *testing.T) {
	t.Parallel()
	users := bustest.ServerFor(t, bustest.User{Name: "svc", Subscribe: []string{"mcp.call.svc.>"}, Publish: []string{"mcp.reply.svc.>"}})
	for range 20 { // the report may arrive before or after the start
		conn, err := bus.Connect(t.Context(), bus.Config{URL: users["svc"], Logger: bustest.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"other", "svc"} { // svc may not hear cancellations
			if s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: name, Handler: echo}); err == nil {
				t.Errorf("%s: started without its permissions", name)
				_ = s.Drain(t.Context())
			}
		}
		conn.Close()
	}
}
