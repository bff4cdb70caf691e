package gateway_test

import (
	"context"
	"errors"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// TestM16WhatIsFollowedIsRecordedAsTheCallItWas: two edges tell clients how one call ended, and
// the audit trail shows a single call.
func TestM16WhatIsFollowedIsRecordedAsTheCallItWas(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	first, second := startOn(t, url, nil), startOn(t, url, nil)
	c := toolCall("echo", `{"text":"x"}`)
	c.Stream = first.caller.NewStream()
	c.Stream.KeepAll = true
	first.works(t, c)
	again := toolCall("echo", `{"text":"x"}`)
	again.Stream = &edges.Stream{Name: c.Stream.Name, Home: c.Stream.Home}
	answer, err := second.gateway.Follow(t.Context(), again, edges.Position{}, nil, func() bool { return false })
	if err != nil || answer.Result == nil {
		t.Fatalf("followed to %+v, %v", answer, err)
	}
	if was, is := first.last(t), second.last(t); is.ID == "" || is.ID != was.ID || is.Outcome != was.Outcome {
		t.Errorf("recorded is %s %s, which was %s %s", is.ID, is.Outcome, was.ID, was.Outcome)
	}
}

// A call that one edge made and another one follows has begun, whatever happens to the first
// edge: if its end is not known, it is recorded as unknown.
func TestALostCallIsNotRecordedAsOneThatDidNotRun(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	first, second := startOn(t, url, nil), startOn(t, url, nil)
	alone, instance := service.New("alone"), bustest.Connect(t, url)
	service.AddTool(alone, service.Tool{Name: "runs"}, func(ctx context.Context, c *service.Call, _ struct{}) (string, error) {
		c.Progress(1, 0, "")
		<-ctx.Done()
		return "", ctx.Err()
	})
	running, err := alone.Start(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = running.Stop(ctx)
	})
	for _, w := range []*world{first, second} {
		if err := w.live.Await(t.Context(), "alone"); err != nil {
			t.Fatal(err)
		}
	}
	call := func(s *edges.Stream) *gateway.Call {
		c := toolCall("runs", `{}`)
		c.Stream, c.WantsProgress = s, true
		return c
	}
	s := first.caller.NewStream()
	s.KeepAll = true
	heard, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := first.gateway.Do(t.Context(), call(s), func(f *busv1.Frame) {
			if f.GetProgress() != nil {
				heard <- struct{}{}
			}
		})
		ended <- err
	}()
	<-heard
	instance.Close()
	<-ended
	_, err = second.gateway.Follow(t.Context(), call(&edges.Stream{Name: s.Name, Home: s.Home}), edges.Position{}, nil, func() bool { return false })
	if f := new(fault.Error); !errors.As(err, &f) || f.Reason != fault.PeerLost || f.Executed != fault.Unknown {
		t.Fatalf("its client is told %v", err)
	}
	if r := second.last(t); r.Outcome != string(fault.PeerLost) || r.Executed() != fault.Unknown || !r.Effect() {
		t.Errorf("recorded is %s, executed %s, an effect: %v", r.Outcome, r.Executed(), r.Effect())
	}
}

// A response that an edge sent is recorded by that edge, which knows how the call ended.
func TestASentResponseIsNotRecordedOnceMore(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	first, second := startOn(t, url, nil), startOn(t, url, nil)
	s := first.caller.NewStream()
	first.caller.Asked(t.Context(), s, &busv1.InputRequired{InputRequests: []byte(`{}`)})
	if err := first.caller.Keep(t.Context(), s, &busv1.Sent{Json: []byte(`{"error":{}}`), Response: true}); err != nil {
		t.Fatal(err)
	}
	c := toolCall("echo", `{}`)
	c.Stream = &edges.Stream{Name: s.Name, Home: s.Home}
	answer, err := second.gateway.Follow(t.Context(), c, edges.Position{}, nil, func() bool { return false })
	if err != nil || answer.Sent == nil {
		t.Fatalf("followed to %+v, %v", answer, err)
	}
	if len(second.records) > 0 {
		t.Errorf("recorded is %s, executed %s", second.last(t).Outcome, second.last(t).Executed())
	}
}
