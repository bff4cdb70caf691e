package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// reports is a service with large results: a call returns at once, or when it is released.
type reports struct {
	*service.Service
	runs, running atomic.Int64
	held          atomic.Bool
	release       chan struct{}
	text          string
}

func newReports(size int) *reports {
	s := &reports{
		Service: service.New("reports", service.WithConcurrency(400), service.WithLogger(slog.New(slog.DiscardHandler))),
		release: make(chan struct{}), text: strings.Repeat("x", size),
	}
	for _, t := range []service.Tool{{Name: "read", ReadOnly: true}, {Name: "write"}} {
		service.AddTool(s.Service, t, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) { return s.make(ctx) })
	}
	s.AddResource(mcp.Resource{URI: "report:///all", Name: "all"}, func(ctx context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		text, err := s.make(ctx)
		return []mcp.ResourceContents{{URI: uri, Text: text}}, err
	})
	s.AddPrompt(mcp.Prompt{Name: "prompt"}, func(ctx context.Context, _ *service.Call, _ map[string]string) ([]mcp.PromptMessage, error) {
		text, err := s.make(ctx)
		return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(text)}}, err
	}, nil)
	return s
}

func (s *reports) make(ctx context.Context) (string, error) {
	s.runs.Add(1)
	s.running.Add(1)
	defer s.running.Add(-1)
	if s.held.Load() {
		select {
		case <-s.release:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return s.text, nil
}

// Of 24 calls with large results at an edge that has room for eight of
// one caller, eight run. The others are refused before they do.
func TestNoRoomIsSaidBeforeTheResultIsMade(t *testing.T) {
	t.Parallel()
	const limit, size, calls, fit, fitOther = 16 << 20, 1<<20 - 1000, 24, 8, 4
	url := bustest.Server(t)
	held, svc := budget.New(limit), newReports(size)
	edgetest.Serve(t, bustest.Connect(t, url), svc.Service)
	w := startOn(t, url, func(w *world, cfg *gateway.Config) {
		cfg.Authenticator, cfg.Budget = w, held
		cfg.Deduplicator = gateway.NewKeys(store.NewOutcomes(bustest.Connect(t, url)), cfg.Caller, cfg.Tasks)
	})
	if err := w.live.Await(within(t), "reports"); err != nil {
		t.Fatal(err)
	}
	tool := func(name string) func(string, int) *gateway.Call {
		return func(who string, _ int) *gateway.Call {
			c := toolCall(name, "{}")
			c.Credentials.Bearer = who
			return c
		}
	}
	other := func(method, name string) func(string, int) *gateway.Call {
		return func(who string, _ int) *gateway.Call {
			return &gateway.Call{Door: "test", Method: method, Name: name, Credentials: gateway.Credentials{Bearer: who}}
		}
	}
	// begin makes n calls at once.
	begin := func(ctx context.Context, call func(string, int) *gateway.Call, who string, n int, ended chan<- error) {
		for i := range n {
			go func() {
				ctx, read := w.gateway.Track(ctx)
				defer read()
				_, err := w.gateway.Do(ctx, call(who, i), nil)
				ended <- err
			}()
		}
	}
	batch := func(ctx context.Context, call func(string, int) *gateway.Call, who string, n int, ended chan<- error) {
		go func() {
			ctx, release := w.gateway.TrackAny(ctx)
			defer release()
			w.gateway.Batch(ctx, n, func(yield func(*gateway.Call, error) bool) {
				for i := range n {
					if !yield(call(who, i), nil) {
						return
					}
				}
			}, func(_ int, _ *gateway.Answer, err error) { ended <- err })
		}()
	}
	for _, c := range []struct {
		name  string
		call  func(who string, i int) *gateway.Call
		begin func(context.Context, func(string, int) *gateway.Call, string, int, chan<- error)
	}{
		{"a tool without effect", tool("read"), begin},
		{"a tool with effect", tool("write"), begin},
		{"a tool with keys", func(who string, i int) *gateway.Call { return keyed("write", "{}", who, who+strconv.Itoa(i)) }, begin},
		{"a resource", other(mcp.MethodResourcesRead, "report:///all"), begin},
		{"a prompt", other(mcp.MethodPromptsGet, "prompt"), begin},
		{"a batch", tool("read"), batch},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: they share the room
			svc.held.Store(false)
			taught := make(chan error, 1)
			begin(t.Context(), c.call, "teacher", 1, taught)
			if err := next(t, taught); err != nil {
				t.Fatal(err)
			}
			svc.held.Store(true)
			before := svc.runs.Load()
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			ended, others := make(chan error, calls), make(chan error, calls)
			refusals := func(ended <-chan error, n int) {
				t.Helper()
				for range n {
					var f *fault.Error
					if err := next(t, ended); !errors.As(err, &f) || f.Reason != fault.Overloaded || f.Executed != fault.No || f.RetryAfter <= 0 {
						t.Fatalf("%v, want overloaded, executed no", err)
					}
				}
			}
			c.begin(ctx, c.call, "ada", calls, ended)
			refusals(ended, calls-fit)
			bustest.Eventually(t, "those with room run", func() bool { return svc.running.Load() == fit })
			if r := w.last(t); r.Outcome != string(fault.Overloaded) || r.Effect() {
				t.Errorf("recorded as %s, with an effect: %t", r.Outcome, r.Effect())
			}
			begin(ctx, c.call, "bob", calls, others)
			refusals(others, calls-fitOther)
			bustest.Eventually(t, "another caller's run", func() bool { return svc.running.Load() == fit+fitOther })
			for range fit {
				svc.release <- struct{}{}
			}
			done := 0
			for done < fit {
				select {
				case err := <-ended:
					if done++; err != nil {
						t.Error(err)
					}
				case err := <-others:
					if done++; err != nil {
						t.Error(err)
					}
				}
			}
			giveUp()
			bustest.Eventually(t, "what is given up ends", func() bool { return svc.running.Load() == 0 && held.Expected() == 0 && held.Held() == 0 })
			if n := svc.runs.Load() - before; n != fit+fitOther {
				t.Errorf("%d calls ran, %d had room", n, fit+fitOther)
			}
		})
	}
}

// A caller with small results of a tool has room, whatever those of others are.
func TestLargeResultsOfOthersTakeNoRoomOfSmallOnes(t *testing.T) {
	t.Parallel()
	w := start(t, func(w *world, cfg *gateway.Config) { cfg.Authenticator, cfg.Budget = w, budget.New(2<<20) })
	call := func(who, arguments string) error {
		ctx, read := w.gateway.Track(t.Context())
		defer read()
		c := toolCall("echo", arguments)
		c.Credentials.Bearer = who
		_, err := w.gateway.Do(ctx, c, nil)
		return err
	}
	large := `{"text":"` + strings.Repeat("x", 300<<10) + `"}`
	for range 3 {
		if err := call("ada", large); err != nil {
			t.Fatal(err)
		}
		if err := call("bob", `{}`); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 100)
	for range cap(ended) {
		go func() { ended <- call("bob", `{}`) }()
	}
	for range cap(ended) {
		if err := next(t, ended); err != nil {
			t.Fatalf("a small result: %v", err)
		}
	}
}

func next(t *testing.T, ended <-chan error) error {
	t.Helper()
	ctx := within(t)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		t.Fatal("no call ends")
		return nil
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	t.Cleanup(cancel)
	return ctx
}
