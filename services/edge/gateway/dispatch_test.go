package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestRepetition(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, name := range []string{"busy", "lost"} {
		if a := w.works(t, toolCall(name, "{}")); !strings.Contains(string(a.Result.GetJson()), "second") {
			t.Errorf("%s: %s", name, a.Result.GetJson())
		}
	}
	if n := w.svc.Calls.Swap(0); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
	w.fails(t, toolCall("lost-effect", "{}"), fault.PeerLost, fault.Unknown)
	w.fails(t, toolCall("broken", "{}"), fault.Internal, fault.Unknown)
	w.fails(t, toolCall("busy-effect", "{}"), fault.Overloaded, fault.No)
	if n := w.svc.Calls.Load(); n != 3 {
		t.Errorf("%d calls, want 3: what may have run was repeated", n)
	}
}

// A service that returns overloaded for a call that it began is not asked again, with or without
// a key.
func TestH6OverloadedIsNotRepeatedOnceItRan(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, executed := range []fault.Executed{fault.No, fault.Unknown, fault.Yes} {
		for _, key := range []string{"", "k" + string(executed)} {
			w.svc.Calls.Store(0)
			c := toolCall("busy-after", `{"executed":"`+string(executed)+`"}`)
			c.IdempotencyKey = key
			w.fails(t, c, fault.Overloaded, executed)
			if n := w.svc.Calls.Load(); n != 1 {
				t.Errorf("executed %s, key %q: %d runs", executed, key, n)
			}
		}
	}
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, cfg *gateway.Config) { cfg.Limiter = gateway.NewInFlight(2) })
	one, two := begin(t.Context(), w.gateway, toolCall("hold", "{}")), begin(t.Context(), w.gateway, toolCall("hold", "{}"))
	<-w.svc.Started
	<-w.svc.Started
	if f := w.fails(t, toolCall("safe", "{}"), fault.Overloaded, fault.No); f.RetryAfter <= 0 {
		t.Error("no word on when to try again")
	}
	for range 2 {
		w.svc.Release <- struct{}{}
	}
	for _, done := range []<-chan error{one, two} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for range 10 {
		w.works(t, toolCall("safe", "{}"))
		w.fails(t, toolCall("nope", "{}"), fault.UnknownTool, fault.No)
	}
}

func TestToolTimeout(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	var took time.Duration
	var err error
	for range 5 { // a busy machine may use up the time of a call before it begins
		at := time.Now()
		_, err = w.gateway.Do(t.Context(), toolCall("hurry", "{}"), nil)
		if took = time.Since(at); len(w.svc.Started) > 0 {
			break
		}
	}
	if f := fault.From(err); f == nil || f.Reason != fault.DeadlineExceeded || f.Executed != fault.Unknown || w.last(t).Outcome != string(fault.DeadlineExceeded) {
		t.Errorf("%v, recorded as %q", err, w.last(t).Outcome)
	}
	if took < time.Second || took > edgetest.Hurry+bustest.Promptly {
		t.Errorf("took %v, the tool has %v", took, edgetest.Hurry)
	}
	select {
	case <-w.svc.Ended:
	case <-time.After(time.Minute):
		t.Error("the handler goes on")
	}
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := begin(ctx, w.gateway, toolCall("hold", "{}"))
	<-w.svc.Started
	cancel()
	if err := <-done; !fault.Is(err, fault.Cancelled) {
		t.Errorf("got %v", err)
	}
	if r := w.last(t); r.Outcome != "cancelled" {
		t.Errorf("audited %q", r.Outcome)
	}
	<-w.svc.Ended
}

// The client's request for progress and logs reaches the service, and the frames come back.
func TestRequestCarriesTheCall(t *testing.T) {
	t.Parallel()
	w := start(t, all)
	var frames []string
	c := toolCall("progress", "{}")
	c.Credentials, c.WantsProgress, c.LogLevel = gateway.Credentials{Bearer: "b"}, true, busv1.LogLevel_LOG_LEVEL_ERROR
	if _, err := w.gateway.Do(t.Context(), c, func(f *busv1.Frame) { frames = append(frames, fmt.Sprintf("%T", f.Body)) }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(frames, " "); got != "*busv1.Frame_Progress *busv1.Frame_Progress *busv1.Frame_Progress *busv1.Frame_Log" {
		t.Errorf("frames %s", got)
	}
}
