package servicetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count,omitzero"`
}

type placed struct {
	ID    string `json:"id"`
	Total int    `json:"total"`
}

// shop has a tool for each way a call may go.
func shop() *service.Service {
	s := service.New("shop", service.WithVersion("1.0.0"), service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: "price", ReadOnly: true}, func(_ context.Context, _ *service.Call, in order) (placed, error) {
		if in.Item == "moon" {
			return placed{}, service.Errorf("no such item")
		}
		return placed{ID: in.Item, Total: 7 * max(in.Count, 1)}, nil
	})
	service.AddTool(s, service.Tool{Name: "order"}, func(_ context.Context, c *service.Call, in order) (placed, error) {
		form := map[string]any{"type": "object", "properties": map[string]any{"count": map[string]any{"type": "integer"}}}
		answers, err := c.Ask(service.Elicit("how many", "How many?", form), service.Roots("where"))
		if err != nil {
			return placed{}, err
		}
		action, err := answers.Elicited("how many", &in)
		if err != nil || action != "accept" {
			return placed{}, service.Errorf("not ordered")
		}
		roots, err := answers.Roots("where")
		if err != nil || len(roots) != 1 {
			return placed{}, service.Errorf("nowhere to deliver to")
		}
		c.Progress(1, 2, "packed")
		c.Log("info", "shop", map[string]any{"by": c.Principal()})
		return placed{ID: c.IdempotencyKey(), Total: in.Count}, nil
	})
	service.AddTool(s, service.Tool{Name: "burn", RequiresUserApproval: true}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "burnt", nil
	})
	service.AddTool(s, service.Tool{Name: "quote", ReadOnly: true, CallsTools: true}, func(ctx context.Context, c *service.Call, in order) (string, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: "rate", Arguments: map[string]any{"currency": "EUR"}})
		if err != nil {
			return "", err
		}
		return in.Item + " at " + r.Text(), nil
	})
	service.AddTool(s, service.Tool{Name: "build", Task: service.TaskRequired}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		if _, err := c.Ask(service.Sample("name", service.Sampling{MaxTokens: 9})); err != nil {
			return "", err
		}
		return "built", nil
	})
	service.AddTool(s, service.Tool{Name: "lie", OutputSchema: []byte(`{"type":"object","properties":{"total":{"type":"string"}}}`)},
		func(context.Context, *service.Call, struct{}) (placed, error) { return placed{Total: 1}, nil })
	return s
}

func TestCall(t *testing.T) {
	t.Parallel()
	b := servicetest.Start(t, shop())
	got, err := servicetest.Call[placed](b, "price", order{"pen", 2})
	if err != nil || got != (placed{"pen", 14}) {
		t.Errorf("priced: %+v, %v", got, err)
	}
	if r := b.Call("price", order{Item: "moon"}); !r.IsError || r.Text != "no such item" || r.Err != nil {
		t.Errorf("a tool's own failure: %+v", r)
	}
	if _, err := servicetest.Call[placed](b, "price", order{Item: "moon"}); err == nil || err.Error() != "no such item" {
		t.Errorf("a tool's own failure: %v", err)
	}
	if r := b.Call("price", `{"item":1}`); !fault.Is(r.Err, fault.InvalidParams) {
		t.Errorf("wrong arguments: %+v", r)
	}
	if r := b.Call("nothing", nil); !fault.Is(r.Err, fault.UnknownTool) {
		t.Errorf("no such tool: %+v", r)
	}
}

func TestQuestionsProgressAndLogs(t *testing.T) {
	t.Parallel()
	b := servicetest.Start(t, shop()).As("ada", "acme").WithKey("k1").Answer("where", []service.Root{{URI: "file:///here"}})
	r := b.Answer("how many", map[string]any{"count": 3}).Call("order", order{Item: "pen"})
	var out placed
	if err := r.Into(&out); err != nil || out != (placed{"k1", 3}) {
		t.Fatalf("ordered: %+v, %v", out, err)
	}
	if len(r.Progress) != 1 || r.Progress[0] != (servicetest.Progress{Done: 1, Total: 2, Message: "packed"}) {
		t.Errorf("progress: %+v", r.Progress)
	}
	if len(r.Logs) != 1 || r.Logs[0].Level != "info" || string(r.Logs[0].Data) != `{"by":"ada"}` {
		t.Errorf("logs: %+v", r.Logs)
	}
	if !slices.Equal(r.Asked, []string{"how many", "where"}) {
		t.Errorf("asked: %q", r.Asked)
	}
	if r := b.Decline("how many").Call("order", order{Item: "pen"}); r.Text != "not ordered" {
		t.Errorf("declined: %+v", r)
	}
}

func TestToolsThatCallTools(t *testing.T) {
	t.Parallel()
	rates := service.New("rates", service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(rates, service.Tool{Name: "rate", ReadOnly: true}, func(_ context.Context, c *service.Call, _ struct {
		Currency string `json:"currency"`
	}) (string, error) {
		return "2 for " + c.Principal(), nil
	})
	b := servicetest.Start(t, shop(), rates)
	quote := func(b *servicetest.Bus) string {
		text, err := servicetest.Call[string](b, "quote", order{Item: "pen"})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	if got := quote(b.As("ada", "")); got != "pen at 2 for ada" {
		t.Errorf("another service: %s", got)
	}
	b.Stub("rate", func(arguments []byte) (any, error) { return string(arguments), nil })
	if got := quote(b); got != `pen at {"currency":"EUR"}` {
		t.Errorf("a stub: %s", got)
	}
	b.Stub("rate", func([]byte) (any, error) { return nil, errors.New("closed") })
	if got := quote(b); got != "pen at closed" {
		t.Errorf("a stub that fails: %s", got)
	}
}

// TestCallToReadsText: a tool that returns text is called as one that returns a value.
func TestCallToReadsText(t *testing.T) {
	t.Parallel()
	s := service.New("calls", service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: "text", ReadOnly: true, CallsTools: true}, func(ctx context.Context, c *service.Call, _ struct{}) (string, error) {
		return service.CallTo[string](ctx, c, "says", nil)
	})
	service.AddTool(s, service.Tool{Name: "value", ReadOnly: true, CallsTools: true}, func(ctx context.Context, c *service.Call, _ struct{}) (order, error) {
		return service.CallTo[order](ctx, c, "says", nil)
	})
	b := servicetest.Start(t, s)
	b.Stub("says", func([]byte) (any, error) { return "a \"pen\"", nil })
	if r := b.Call("text", nil); r.Text != `a "pen"` || r.Structured != nil {
		t.Errorf("text: %+v", r)
	}
	if r := b.Call("value", nil); !fault.Is(r.Err, fault.Internal) || !strings.Contains(r.Err.Error(), "no structured content") {
		t.Errorf("a value: %+v", r)
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	b := servicetest.Start(t, shop()).Answer("name", "Ada")
	if r := b.Task("build", nil).Wait(); r.Text != "built" || !slices.Equal(r.Asked, []string{"name"}) {
		t.Errorf("%+v", r)
	}
	// Another instance takes over what the first one left.
	task := b.Task("build", nil)
	b.Replace(shop())
	if r := task.Wait(); r.Text != "built" {
		t.Errorf("after its instance was replaced: %+v", r)
	}
}

// failing stands in for a test that is expected to fail.
type failing struct {
	servicetest.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails runs f as a test of its own, and returns why it failed.
func fails(t *testing.T, f func(t servicetest.TB)) string {
	t.Helper()
	test, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(test)
	}()
	<-done
	return test.said
}

func TestWhatEndsATest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    func(b *servicetest.Bus)
		want string
	}{
		"a question without an answer":     {func(b *servicetest.Bus) { b.Call("order", order{Item: "pen"}) }, `the tool asks "how many" (elicitation/create): say Answer("how many", …)`},
		"an approval that nobody gave":     {func(b *servicetest.Bus) { b.Call("burn", nil) }, "needs a person's approval: say Approve(true)"},
		"a task that is called":            {func(b *servicetest.Bus) { b.Call("build", nil) }, "goes on as a task: use Task"},
		"a call that is taken for a task":  {func(b *servicetest.Bus) { b.Task("price", order{Item: "pen"}) }, "ended at once: use Call"},
		"a result that its schema forbids": {func(b *servicetest.Bus) { b.Call("lie", nil) }, "tool lie returns what its schema forbids: /total: got number, want string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := fails(t, func(t servicetest.TB) { c.f(servicetest.Start(t, shop())) }); !strings.Contains(said, c.want) {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}

// A task whose instance is killed is taken over by another one.
func TestKillInstance(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	began := make(chan struct{}, 1)
	s := service.New("long", service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: "long", Task: service.TaskRequired}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		if runs.Add(1) == 1 {
			began <- struct{}{}
			<-ctx.Done() // its instance is killed
			return "", ctx.Err()
		}
		return "at another instance", nil
	})
	task := servicetest.Start(t, s).Task("long", nil)
	<-began
	task.KillInstance()
	if r := task.Wait(); r.Text != "at another instance" || runs.Load() != 2 {
		t.Errorf("%+v after %d runs", r, runs.Load())
	}
}
