// Package servicetest tests services the way they run: on a NATS bus in the
// test's process, called as an edge calls them. A tool that asks, runs as a
// task, needs approval or calls other tools can be tested like any other.
//
//	b := servicetest.Start(t, servicetest.Build(t, hello.New, service.Env{}))
//	r := b.Call("hello", map[string]any{"name": "Ada"})
//	if r.Text != "Hello, Ada!" {
//		t.Error(r.Text)
//	}
//
// There is no edge: an edge's access rules are not tested here. Start reading at Start and
// Bus.Call.
package servicetest

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/libs/service"
)

// TB is the part of testing.TB that a Bus needs.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// startTime bounds how long the bus and its services may take to start. They
// take some 0.2 s; a busy machine may need much longer.
const startTime = time.Minute

// Bus is a bus with services, and a caller who uses them. Its methods may be
// used from many goroutines. Those that return a Bus leave theirs as it is.
type Bus struct {
	t      TB
	shared *shared

	identity *busv1.Identity
	key      string
	meta     []byte
	answers  map[string]any // by key; a declined form is nil
	approve  *bool
	// plain is set if the caller's client takes no tasks.
	plain bool
}

// shared is the state that all callers of one bus have in common.
type shared struct {
	config   bus.Config
	conn     *bus.Conn
	caller   *bus.Caller
	registry *registry.Registry
	tasks    *task.Store
	changed  chan struct{} // has a value if the registry may have changed

	mu        sync.Mutex
	instances map[string][]instance
	stubs     map[string]Stubbed
}

// Build builds a service as its program does. A failure to do so ends the test.
func Build[E service.Environment](t TB, build service.Build[E], env E) *service.Service {
	t.Helper()
	s, err := build(t.Context(), env)
	if err != nil {
		t.Fatalf("servicetest: %v", err)
	}
	return s
}

// Join puts an instance on the test's bus until the test ends or leave is called; calls that still
// run are cancelled a second later. A failure to start ends the test.
func Join(t TB, conn *bus.Conn, s *service.Service) (leave func()) {
	t.Helper()
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatalf("servicetest: %v", err)
	}
	leave = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := running.Stop(ctx); err != nil && ctx.Err() == nil {
			t.Fatalf("servicetest: %v", err)
		}
	}
	t.Cleanup(leave)
	return leave
}

// Start starts a bus with services on it, and stops both when the test ends. A
// failure to do so ends the test.
func Start(t TB, services ...*service.Service) *Bus {
	t.Helper()
	b := &Bus{t: t, shared: &shared{changed: make(chan struct{}, 1), instances: map[string][]instance{}, stubs: map[string]Stubbed{}}}
	if err := b.start(services); err != nil {
		t.Fatalf("servicetest: %v", err)
	}
	return b
}

func (b *Bus) start(services []*service.Service) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), startTime)
	defer cancel()
	s, quiet := b.shared, slog.New(slog.NewTextHandler(io.Discard, nil))
	dir, err := os.MkdirTemp("", "servicetest-")
	if err != nil {
		return err
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	nats, err := natsd.Start(natsd.Config{DataDir: dir, Relaxed: true, Logger: quiet})
	if err != nil {
		return err
	}
	b.t.Cleanup(nats.Stop)
	s.config = bus.Config{URL: nats.URL(), Name: "servicetest", Logger: quiet}
	if s.conn, err = bus.Connect(ctx, s.config); err != nil {
		return err
	}
	b.t.Cleanup(s.conn.Close)
	if _, err = storage.Ensure(ctx, s.conn, storage.Auto); err != nil {
		return err
	}
	s.tasks = task.Open(s.conn)
	if s.caller, err = bus.NewCaller(s.conn); err != nil {
		return err
	}
	b.t.Cleanup(func() { _ = s.caller.Close() })
	gateway, err := b.serveGateway(ctx)
	if err != nil {
		return err
	}
	b.t.Cleanup(func() { _ = gateway.Drain(stopped()) })
	for _, one := range services {
		if err := b.add(ctx, one); err != nil {
			return err
		}
	}
	s.registry, err = registry.Watch(ctx, s.conn, func([]registry.Service) {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	b.t.Cleanup(s.registry.Close)
	for _, one := range services {
		if _, err := b.find(ctx, "service "+one.Name(), func(s registry.Service) bool { return s.Name == one.Name() }); err != nil {
			return err
		}
	}
	return nil
}

// instance is an instance of a service with a connection of its own, like a process.
type instance struct {
	*service.Running
	service *service.Service
	conn    *bus.Conn
}

// add starts one more instance of a service.
func (b *Bus) add(ctx context.Context, s *service.Service) error {
	conn, err := bus.Connect(ctx, b.shared.config)
	if err != nil {
		return err
	}
	b.t.Cleanup(conn.Close)
	running, err := s.Start(ctx, conn)
	if err != nil {
		return err
	}
	b.t.Cleanup(func() { _ = running.Stop(stopped()) })
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	b.shared.instances[s.Name()] = append(b.shared.instances[s.Name()], instance{running, s, conn})
	return nil
}

// stopped is a context that has ended, so that running calls are cancelled.
func stopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// As is the bus for another caller, with the scopes of its credentials. Without it the
// caller is "anonymous", of no tenant and with no scopes.
func (b *Bus) As(principal, tenant string, scopes ...string) *Bus {
	other := *b
	other.identity = &busv1.Identity{Principal: principal, Tenant: tenant, Scopes: scopes}
	return &other
}

// WithMeta returns the bus for calls with a _meta, anything that marshals to a JSON object.
func (b *Bus) WithMeta(meta any) *Bus {
	b.t.Helper()
	other := *b
	var err error
	if other.meta, err = object(meta); err != nil {
		b.t.Fatalf("servicetest: the _meta of a call: %v", err)
	}
	return &other
}

// WithKey returns the bus for calls with an idempotency key.
func (b *Bus) WithKey(key string) *Bus {
	other := *b
	other.key = key
	return &other
}

// Answer sets the answer to a tool's question with this key. The values of a form are anything that
// marshals to a JSON object; a model's answer is a string; roots are a []service.Root.
func (b *Bus) Answer(key string, content any) *Bus {
	other := *b
	other.answers = maps.Clone(b.answers)
	if other.answers == nil {
		other.answers = map[string]any{}
	}
	other.answers[key] = content
	return &other
}

// Decline declines a tool's form with this key.
func (b *Bus) Decline(key string) *Bus { return b.Answer(key, nil) }

// Approve sets a person's decision on calls that need approval. Without it, such a call ends the
// test.
func (b *Bus) Approve(yes bool) *Bus {
	other := *b
	other.approve = &yes
	return &other
}

// WithoutTasks is the bus for a caller whose client takes no tasks.
func (b *Bus) WithoutTasks() *Bus {
	other := *b
	other.plain = true
	return &other
}

// Stubbed replaces a tool that the service under test calls. arguments are JSON. Its value becomes
// the tool's structured result, a string the text. Its error becomes the tool's own failure.
type Stubbed func(arguments []byte) (any, error)

// Stub replaces a tool for the calls that services make; for arguments in a struct, see the
// function Stub.
func (b *Bus) Stub(tool string, f Stubbed) {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	b.shared.stubs[tool] = f
}

// Stub replaces a tool for the calls that services make. In is a struct of the arguments. Arguments
// that do not fit In end the call as the tool's own failure.
func Stub[In, Out any](b *Bus, tool string, f func(in In) (Out, error)) {
	b.Stub(tool, func(arguments []byte) (any, error) {
		var in In
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		return f(in)
	})
}

// find waits for a service on the bus.
func (b *Bus) find(ctx context.Context, what string, is func(registry.Service) bool) (registry.Service, error) {
	for {
		all := b.shared.registry.Services()
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i], nil
		}
		select {
		case <-b.shared.changed:
		case <-ctx.Done():
			return registry.Service{}, &missingError{what}
		}
	}
}

type missingError struct{ what string }

func (e *missingError) Error() string { return "no " + e.what + " on the bus" }
