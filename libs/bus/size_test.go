package bus_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// object is a JSON object of n bytes; n is 0, or 2 and more.
func object(n int) []byte {
	if n < 7 {
		return []byte("{}")[:n]
	}
	part := make([]byte, 997) // a prime, so that no two chunks are alike
	for i := range part {
		part[i] = byte('a' + (i>>8^i)%23)
	}
	b := bytes.Repeat(part, n/len(part)+1)[:n]
	copy(b, `{"":"`)
	copy(b[n-2:], `"}`)
	return b
}

func TestRequestTooLarge(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, echo)
	caller := newCaller(t, url)
	fits := string(object(960 << 10))
	frame, err := caller.Call(t.Context(), "svc", toolCall(fits), nil)
	if err != nil || string(frame.GetResult().GetJson()) != fits {
		t.Errorf("960 KiB: %v", err)
	}
	for _, size := range []int{1 << 20, 2 << 20} {
		start := time.Now()
		_, err = caller.Call(t.Context(), "svc", toolCall(strings.Repeat("x", size)), nil)
		fails(t, err, fault.TooLarge, fault.No)
		if took := time.Since(start); took > bustest.Promptly {
			t.Errorf("%d bytes: refused after %v", size, took)
		}
	}
	if _, err = caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestResultOfAnySizeArrives(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		n, err := strconv.Atoi(req.Name)
		return &busv1.Result{Json: object(n), Meta: []byte(`{"m":1}`)}, err
	})
	caller := newCaller(t, url)
	for _, n := range []int{0, 2, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 * 128 << 10, 1 << 20, 5<<20 + 7, bus.MaxResult} {
		frame, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: strconv.Itoa(n)}, nil)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		if r := frame.GetResult(); !bytes.Equal(r.GetJson(), object(n)) || string(r.GetMeta()) != `{"m":1}` {
			t.Errorf("%d bytes came as %d others", n, len(r.GetJson()))
		}
	}
	start := time.Now()
	_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: strconv.Itoa(bus.MaxResult + 1)}, nil)
	fails(t, err, fault.ResultTooLarge, fault.Yes)
	if took := time.Since(start); took > bustest.Promptly {
		t.Errorf("refused after %v", took)
	}
}

// Large results of several concurrent calls are not mixed.
func TestChunksOfCallsDoNotMix(t *testing.T) {
	t.Parallel()
	result := func(name string) []byte { return []byte(`{"":"` + strings.Repeat(name, 700<<10-7) + `"}`) }
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		return &busv1.Result{Json: result(req.Name)}, nil
	})
	caller := newCaller(t, url)
	errs := make(chan string, 16)
	for i := range 16 {
		go func() {
			name := string(rune('a' + i))
			frame, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: name}, nil)
			switch {
			case err != nil:
				errs <- err.Error()
			case !bytes.Equal(frame.GetResult().GetJson(), result(name)):
				errs <- "mixed: " + name
			default:
				errs <- ""
			}
		}()
	}
	for range 16 {
		if msg := await(t, "every call is answered", errs); msg != "" {
			t.Error(msg)
		}
	}
}

// A notification that is too large is dropped; an answer that is too large becomes an error. The
// caller never waits in silence.
func TestWhatCannotTravel(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	big := strings.Repeat("x", 2<<20)
	handle(t, url, func(_ context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		switch req.Name {
		case "progress":
			out.Progress(&busv1.Progress{Progress: 1, Message: big})
			out.Progress(&busv1.Progress{Progress: 2, Message: "not UTF-8: \xff"})
			out.Progress(&busv1.Progress{Progress: 3, Message: "fine"})
		case "log":
			out.Log(&busv1.Log{Data: []byte(big)})
			out.Log(&busv1.Log{Logger: "\xff"})
			out.Log(&busv1.Log{Logger: "fine"})
		case "meta":
			return &busv1.Result{Meta: []byte(big)}, nil
		case "input":
			return &busv1.InputRequired{InputRequests: []byte(big)}, nil
		case "error":
			return nil, fault.New(fault.InvalidParams, "%s", big)
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	caller := newCaller(t, url)
	for _, name := range []string{"progress", "log"} {
		var heard []*busv1.Frame
		_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: name}, func(f *busv1.Frame) { heard = append(heard, f) })
		if err != nil || len(heard) != 1 || heard[0].GetProgress().GetMessage()+heard[0].GetLog().GetLogger() != "fine" {
			t.Errorf("%s: %d frames, %v", name, len(heard), err)
		}
	}
	for _, name := range []string{"meta", "input", "error"} {
		start := time.Now()
		_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: name}, nil)
		if !fault.Is(err, fault.ResultTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > bustest.Promptly {
			t.Errorf("%s: said after %v", name, took)
		}
	}
}
