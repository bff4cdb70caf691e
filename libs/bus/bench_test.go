package bus_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// BenchmarkStream compares a call for which a stream is offered with the same call without one.
// Both take turns, so that the ratio is measured under the same conditions.
//
//   - at once: the result is the first frame; the stream is not used.
//   - ten steps: ten progress frames and the result, which the stream keeps.
func BenchmarkStream(b *testing.B) {
	url := bustest.Server(b)
	s, err := bus.Serve(b.Context(), bustest.Connect(b, url), bus.ServerConfig{Service: "svc", Handler: func(_ context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		for i := range len(req.Arguments) {
			out.Progress(&busv1.Progress{Progress: float64(i + 1), Total: 10})
		}
		return &busv1.Result{Json: []byte(`{"content":[{"type":"text","text":"done"}]}`)}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Drain(context.Background()) })
	caller, err := edges.NewCaller(bustest.Connect(b, url))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = caller.Close() })
	for _, c := range []struct{ name, arguments string }{{"at once", ""}, {"ten steps", "0123456789"}} {
		b.Run(c.name, func(b *testing.B) {
			heard := 0
			timed := func(stream func() *edges.Stream) time.Duration {
				began := time.Now()
				if _, err := callOn(caller, b.Context(), stream(), "svc", toolCall(c.arguments), func(*busv1.Frame) { heard++ }); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			var without, with time.Duration
			calls := 0
			for b.Loop() {
				without += timed(func() *edges.Stream { return nil })
				with += timed(caller.NewStream)
				calls++
			}
			if heard != 2*calls*len(c.arguments) {
				b.Errorf("%d frames", heard)
			}
			b.ReportMetric(0, "ns/op") // two calls each
			b.ReportMetric(float64(without.Nanoseconds())/float64(calls), "without-ns")
			b.ReportMetric(float64(with.Nanoseconds())/float64(calls), "with-ns")
			b.ReportMetric(float64(with)/float64(without), "ratio")
		})
	}
}

// BenchmarkPermit compares a call that asks its caller before it begins with one that does not.
// Both take turns.
func BenchmarkPermit(b *testing.B) {
	url := bustest.Server(b)
	s, err := bus.Serve(b.Context(), bustest.Connect(b, url), bus.ServerConfig{Service: "svc", Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		return &busv1.Result{Json: []byte(`{"content":[{"type":"text","text":"done"}]}`)}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Drain(context.Background()) })
	caller, err := edges.NewCaller(bustest.Connect(b, url))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = caller.Close() })
	timed := func(askFirst bool) time.Duration {
		req := toolCall(`{}`)
		req.AskFirst = askFirst
		began := time.Now()
		if _, err := caller.Call(b.Context(), "svc", req, nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var without, with time.Duration
	calls := 0
	for b.Loop() {
		without += timed(false)
		with += timed(true)
		calls++
	}
	b.ReportMetric(0, "ns/op") // two calls each
	b.ReportMetric(float64(without.Nanoseconds())/float64(calls), "without-ns")
	b.ReportMetric(float64(with.Nanoseconds())/float64(calls), "with-ns")
	b.ReportMetric(float64(with)/float64(without), "ratio")
}
