package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestCallRoundTrip(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	got := make(chan *busv1.Request, 1)
	s := handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		got <- req
		return &busv1.Result{Json: []byte(`{"ok":1}`), Meta: []byte(`{"m":1}`), IsError: true}, nil
	})
	req := &busv1.Request{
		Method: "tools/call", Name: "näme", Arguments: []byte(`{"a":9007199254740993}`), WantsProgress: true,
		LogLevel: busv1.LogLevel_LOG_LEVEL_INFO, InputResponses: []byte(`{}`), RequestState: []byte{0, 255}, IdempotencyKey: "k",
		Client:      &busv1.Client{Name: "c", Version: "1", Capabilities: []byte(`{}`)},
		Identity:    &busv1.Identity{Principal: "p", Tenant: "t", Scopes: []string{"s"}},
		Traceparent: "00-1", Tracestate: "a=b",
	}
	frame, err := newCaller(t, url).Call(t.Context(), "svc", req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := frame.GetResult(); string(r.GetJson()) != `{"ok":1}` || string(r.GetMeta()) != `{"m":1}` || !r.GetIsError() {
		t.Errorf("result %v", frame)
	}
	// On a busy machine, a heartbeat of the call may have come first.
	if frame.Instance != s.Instance() || frame.Seq == 0 {
		t.Errorf("frame %d of instance %q, want one of %q", frame.Seq, frame.Instance, s.Instance())
	}
	if seen := await(t, "the handler runs", got); !proto.Equal(seen, req) {
		t.Errorf("handler got %v\nwant %v", seen, req)
	}
}

func TestCallTerminalFrames(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		switch req.Name {
		case "input":
			return &busv1.InputRequired{InputRequests: []byte(`{"q":{}}`), RequestState: []byte("s")}, nil
		case "task":
			return &busv1.Task{RequestState: []byte("s"), TimeoutMs: 5}, nil
		case "fault":
			return nil, fault.New(fault.Conflict, "key in use").With([]byte(`{"d":1}`))
		case "fault with cause":
			f := fault.New(fault.RateLimited, "slow down").Because(errors.New("secret"))
			f.RetryAfter = 1500 * time.Millisecond
			return nil, fmt.Errorf("more secrets: %w", f)
		case "foreign error":
			return nil, errors.New("secret: /etc/passwd")
		case "ran":
			return nil, fault.New(fault.Internal, "half done").Ran(fault.Yes)
		case "bad UTF-8":
			return nil, fault.New(fault.InvalidParams, "no such thing: \xff")
		case "panic":
			panic("secret")
		case "wrong type":
			return &busv1.Cancel{}, nil
		}
		return nil, nil
	})
	caller := newCaller(t, url)
	call := func(t *testing.T, name string) (*busv1.Frame, error) {
		t.Helper()
		return caller.Call(within(t, bustest.Patience), "svc", &busv1.Request{Method: "tools/call", Name: name}, nil)
	}
	t.Run("input required", func(t *testing.T) {
		t.Parallel()
		frame, err := call(t, "input")
		if err != nil || string(frame.GetInputRequired().GetInputRequests()) != `{"q":{}}` || string(frame.GetInputRequired().GetRequestState()) != "s" {
			t.Errorf("%v, %v", frame, err)
		}
	})
	t.Run("task", func(t *testing.T) {
		t.Parallel()
		if frame, err := call(t, "task"); err != nil || string(frame.GetTask().GetRequestState()) != "s" || frame.GetTask().GetTimeoutMs() != 5 {
			t.Errorf("%v, %v", frame, err)
		}
	})
	for name, want := range map[string]fault.Error{
		"fault":            {Reason: fault.Conflict, Executed: fault.No, Message: "key in use", Data: []byte(`{"d":1}`)},
		"fault with cause": {Reason: fault.RateLimited, Executed: fault.No, Message: "slow down", RetryAfter: 1500 * time.Millisecond},
		"ran":              {Reason: fault.Internal, Executed: fault.Yes, Message: "half done"},
		"foreign error":    {Reason: fault.Internal, Executed: fault.Unknown},
		"bad UTF-8":        {Reason: fault.Internal, Executed: fault.Unknown},
		"panic":            {Reason: fault.Internal, Executed: fault.Unknown},
		"nothing":          {Reason: fault.Internal, Executed: fault.Unknown},
		"wrong type":       {Reason: fault.Internal, Executed: fault.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, name)
			f := fails(t, err, want.Reason, want.Executed)
			if want.Message != "" && f.Message != want.Message || string(f.Data) != string(want.Data) || f.RetryAfter != want.RetryAfter {
				t.Errorf("got %+v, want %+v", f, want)
			}
			if strings.Contains(f.Error(), "secret") {
				t.Errorf("the cause crossed the bus: %v", f)
			}
		})
	}
}

func TestCallFramesArriveInOrder(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	s := handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		for i := range 50 {
			out.Progress(&busv1.Progress{Progress: float64(i), Total: 50, Message: "m"})
			out.Log(&busv1.Log{Level: busv1.LogLevel_LOG_LEVEL_INFO, Logger: "l", Data: []byte(strconv.Itoa(i))})
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	caller := newCaller(t, url)
	var frames []*busv1.Frame
	var final *busv1.Frame
	unspoilt(t, func() bool {
		frames = nil
		var err error
		if final, err = caller.Call(t.Context(), "svc", toolCall(`{}`), func(f *busv1.Frame) { frames = append(frames, f) }); err != nil {
			t.Fatal(err)
		}
		return final.Seq == 101
	})
	if len(frames) != 100 {
		t.Fatalf("%d frames, the last numbered %d", len(frames), final.Seq)
	}
	for i, f := range frames {
		p, l := f.GetProgress(), f.GetLog()
		if i%2 == 0 && p.GetProgress() != float64(i/2) || i%2 == 1 && string(l.GetData()) != strconv.Itoa(i/2) || int(f.Seq) != i+1 {
			t.Fatalf("frame %d is %v", i, f)
		}
	}
	if frames[0].Instance != s.Instance() {
		t.Errorf("the first frame is of instance %q, want %q", frames[0].Instance, s.Instance())
	}
}

// A handler that reports in a tight loop must not lose its call.
func TestCallSurvivesFloodOfProgress(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const n = 20_000
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		for i := range n {
			out.Progress(&busv1.Progress{Progress: float64(i + 1)})
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	last := 0.0
	_, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), func(f *busv1.Frame) {
		if p := f.GetProgress().GetProgress(); p <= last {
			t.Errorf("progress went from %v to %v", last, p)
		} else {
			last = p
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCallWithoutService(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	caller := newCaller(t, url)
	fast := func(t *testing.T) {
		t.Helper()
		start := time.Now()
		_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		fails(t, err, fault.Unavailable, fault.No)
		if took := time.Since(start); took > bustest.Promptly {
			t.Errorf("took %v", took)
		}
	}
	fast(t)
	fails(t, caller.Check(t.Context(), "svc"), fault.Unavailable, fault.No)

	s := handle(t, url, echo)
	if err := caller.Check(t.Context(), "svc"); err != nil {
		t.Errorf("a running service: %v", err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	fast(t)
}

func TestCallRefusesNames(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	caller := newCaller(t, url)
	for _, name := range []string{"", "a.b", "*", ">", "a b", "a\r\nPUB x 1", "svc.>", strings.Repeat("x", 5000), "näme"} {
		_, err := caller.Call(t.Context(), name, toolCall(`{}`), nil)
		fails(t, err, fault.Unavailable, fault.No)
		if _, err := bus.Serve(t.Context(), bustest.Connect(t, url), bus.ServerConfig{Service: name, Handler: echo}); err == nil {
			t.Errorf("serves %q", name)
		}
		if bus.ValidName(name) == nil {
			t.Errorf("%q counts as a name", name)
		}
	}
	for _, name := range []string{"a", "A-z_09", strings.Repeat("x", 64)} {
		if err := bus.ValidName(name); err != nil {
			t.Error(err)
		}
	}
	for _, method := range []string{"", "tools/list", "initialize", "tools/call/x", "tools.call", "TOOLS/CALL", ">", "x y"} {
		_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: method}, nil)
		fails(t, err, fault.MethodNotFound, fault.No)
	}
}

// Answers never reach another call, however many calls run concurrently.
func TestCallAnswersDoNotCross(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	for range 2 {
		serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 400, Handler: func(_ context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
			out.Progress(&busv1.Progress{Message: string(req.Arguments)})
			return &busv1.Result{Json: req.Arguments}, nil
		}})
	}
	callers := []*edges.Caller{newCaller(t, url), newCaller(t, url)}
	errs := make(chan error)
	const n = 300
	for i := range n {
		go func() {
			nonce := fmt.Sprintf(`{"nonce":%d}`, i)
			heard := ""
			frame, err := callers[i%2].Call(t.Context(), "svc", toolCall(nonce), func(f *busv1.Frame) { heard = f.GetProgress().GetMessage() })
			if err == nil && (string(frame.GetResult().GetJson()) != nonce || heard != nonce) {
				err = fmt.Errorf("%s was answered with %s after %s", nonce, frame.GetResult().GetJson(), heard)
			}
			errs <- err
		}()
	}
	for range n {
		if err := await(t, "every call is answered", errs); err != nil {
			t.Error(err)
		}
	}
}

// A caller that is used again after abandoned calls must not receive their answers.
func TestCallIgnoresAnswersOfEarlierCalls(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	release := make(chan struct{})
	handle(t, url, func(_ context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		if req.Name == "slow" {
			<-release
		}
		return &busv1.Result{Json: req.Arguments}, nil
	})
	caller := newCaller(t, url)
	for range 20 {
		_, err := caller.Call(within(t, 110*time.Millisecond), "svc", &busv1.Request{Method: "tools/call", Name: "slow", Arguments: []byte(`{"late":1}`)}, nil)
		// On a busy machine the service may even receive the call too late to start.
		if !fault.Is(err, fault.DeadlineExceeded) {
			t.Fatalf("got %v, want %s", err, fault.DeadlineExceeded)
		}
	}
	close(release)
	for i := range 200 {
		want := `{"i":` + strconv.Itoa(i) + `}`
		frame, err := caller.Call(t.Context(), "svc", toolCall(want), nil)
		if err != nil || string(frame.GetResult().GetJson()) != want {
			t.Fatalf("call %d: %v, %v", i, frame, err)
		}
	}
}
