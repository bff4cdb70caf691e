package service_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// notifications makes a call and returns the notifications that arrived before its result.
func (c *client) notifications(req *busv1.Request) string {
	c.t.Helper()
	var heard []string
	if _, err := c.do(req, func(f *busv1.Frame) {
		switch {
		case f.GetProgress() != nil:
			p := f.GetProgress()
			heard = append(heard, fmt.Sprintf("%v/%v %s", p.Progress, p.Total, p.Message))
		case f.GetLog() != nil:
			heard = append(heard, fmt.Sprintf("%s %s %s", mcp.LogLevels[f.GetLog().Level-1], f.GetLog().Logger, f.GetLog().Data))
		}
	}); err != nil {
		c.t.Fatal(err)
	}
	return strings.Join(heard, "; ")
}

func TestProgressOnlyWhenWanted(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "t", func(call *service.Call) (string, error) {
		call.Progress(1, 3, "one")
		call.Progress(2.5, 0, "")
		return "", nil
	})
	c := run(t, s)
	same(t, "unwanted", c.notifications(tool("t", `{}`)), "")
	wants := tool("t", `{}`)
	wants.WantsProgress = true
	same(t, "wanted", c.notifications(wants), "1/3 one; 2.5/0 ")
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "t", func(call *service.Call) (string, error) {
		for _, level := range mcp.LogLevels {
			call.Log(level, "l", map[string]any{"n": 1})
		}
		call.Log("no such level", "l", "x")
		call.Log("", "l", "x")
		call.Log("emergency", "cannot be encoded", func() {})
		return "", nil
	})
	c := run(t, s)
	same(t, "not asked for", c.notifications(tool("t", `{}`)), "")
	for i := range mcp.LogLevels {
		req := tool("t", `{}`)
		req.LogLevel = busv1.LogLevel(i + 1)
		var want []string
		for _, level := range mcp.LogLevels[i:] {
			want = append(want, level+` l {"n":1}`)
		}
		same(t, mcp.LogLevels[i], c.notifications(req), strings.Join(want, "; "))
	}
}

func TestCallSaysWhoCalls(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "t", func(call *service.Call) (string, error) {
		return fmt.Sprintf("%s|%s|%s %s|%s|%t", call.Principal(), call.Tenant(), call.Client().Name, call.Client().Version, call.IdempotencyKey(), call.ID() != ""), nil
	})
	c := run(t, s)
	same(t, "nothing known", c.result(tool("t", `{}`)), said("anonymous|| ||true"))
	req := tool("t", `{}`)
	req.Identity = &busv1.Identity{Principal: "ada", Tenant: "acme"}
	req.Client = &busv1.Client{Name: "cli", Version: "2"}
	req.IdempotencyKey = "key"
	same(t, "everything known", c.result(req), said("ada|acme|cli 2|key|true"))
}

// A handler's context ends when its caller gives up.
func TestHandlerIsToldThatItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	started, ended := make(chan struct{}), make(chan struct{})
	service.AddTool(s, service.Tool{Name: "t"}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	c := run(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := c.caller.Call(ctx, "svc", tool("t", `{}`), nil); err == nil {
		t.Error("the call succeeded")
	}
	<-ended
}

// The identity of a call is found from its context, and stands in its log.
func TestWhoCalls(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // written by one handler at a time
	s := service.New("svc", service.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))))
	var seen service.Identity
	askingTool(s, "t", func(c *service.Call) (string, error) { return string(c.Meta()), nil })
	service.AddTool(s, service.Tool{Name: "who", ReadOnly: true}, func(ctx context.Context, c *service.Call, _ struct{}) (string, error) {
		below, cancel := context.WithCancel(ctx)
		defer cancel()
		if found, ok := service.FromContext(below); !ok || found != c {
			t.Errorf("found %v, %v", found, ok)
		}
		if first, again := c.Logger(), c.Logger(); first != again {
			t.Error("two loggers for one call")
		}
		seen = c.Identity()
		log.Reset()
		c.Logger().Info("said")
		return trace.SpanContextFromContext(below).TraceID().String(), nil
	})
	if _, ok := service.FromContext(t.Context()); ok {
		t.Error("a context of no call has one")
	}
	c := run(t, s)
	req := tool("who", `{}`)
	req.Id = "call-1"
	req.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	req.Identity = &busv1.Identity{Principal: "ada", Tenant: "acme", Scopes: []string{"orders:write"}, Roles: []string{"clerk"}, Program: true}
	if got := c.result(req); !strings.Contains(got, "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("the trace in the context: %s", got)
	}
	same(t, "log", log.String(), "level=INFO msg=said service=svc call=call tool=who principal=ada tenant=acme trace_id=0af7651916cd43dd8448eb211c80319c\n")
	if !seen.Has("orders:write") || seen.Has("orders") || seen.Principal != "ada" || seen.Tenant != "acme" || !slices.Equal(seen.Roles, []string{"clerk"}) || !seen.Program {
		t.Errorf("%+v", seen)
	}
	c.result(tool("who", `{}`))
	if got := log.String(); !strings.HasSuffix(got, " tool=who principal=anonymous\n") || seen.Principal != "anonymous" {
		t.Errorf("%s, %+v", got, seen)
	}
	with := tool("t", `{}`)
	with.Meta = []byte(`{"locale":"pl"}`)
	if got := c.result(with); !strings.Contains(got, `locale`) {
		t.Errorf("_meta: %s", got)
	}
}

// A context that carries its call, and finding the call there, allocate nothing.
func TestCallAllocates(t *testing.T) {
	within := service.Within()
	var found bool
	if n := testing.AllocsPerRun(100, func() { _, found = service.FromContext(within(t.Context())) }); n > 0 || !found {
		t.Errorf("%v allocations, found %v", n, found)
	}
}
