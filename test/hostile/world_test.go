// Package hostile has a service attack the bus that it is on: with credentials of its
// own, on a NATS server configured as "busbar nats-config" says.
package hostile

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
)

// world is a bus with an edge, the service text, which does no harm, and evil, which has every
// power except the audit trail's.
type world struct {
	fleet *bustest.Fleet
	edge  *edge.Edge
	ran   *atomic.Int32
	// evil is a connection with the credentials of that service. god is one of a user
	// who may do everything in the account of the edges: what an attempt would be seen
	// by, and the control that it would be seen.
	evil, god *nats.Conn
	// seen has every message of the edges' account, by its subject.
	mu   sync.Mutex
	seen map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := secret.Dir(t.TempDir())
	config, err := permission.Issue(dir, []permission.User{
		bustest.Of(t, "text"), bustest.Of(t, "planner", permission.Calls), bustest.Of(t, "audit", permission.Audit, permission.Store),
		bustest.Of(t, "evil", permission.Calls, permission.Tasks, permission.Refresh, permission.Store),
	})
	if err != nil {
		t.Fatal(err)
	}
	config = strings.Replace(config, "users: [", "users: [\n      { user: god, password: x }", 1)
	s := bustest.Start(t, bustest.Config{Conf: config})
	w := &world{fleet: &bustest.Fleet{URL: s.URL, Dir: dir}, ran: &atomic.Int32{}, seen: map[string]int{}}
	w.edge = w.newEdge(t, edge.Config{})
	text := service.New("text", service.WithLogger(quiet))
	service.AddTool(text, service.Tool{Name: "append"}, func(context.Context, *service.Call, struct{}) (string, error) {
		w.ran.Add(1)
		return "done", nil
	})
	w.start(t, text)
	if err := w.edge.Await(t.Context(), "text"); err != nil {
		t.Fatal(err)
	}
	w.god = w.raw(t, nats.UserInfo("god", "x"))
	if _, err := w.god.Subscribe(">", func(m *nats.Msg) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[m.Subject]++
	}); err != nil {
		t.Fatal(err)
	}
	w.evil = w.as(t, "evil")
	return w
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func (w *world) raw(t *testing.T, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(w.fleet.URL, append(opts, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (w *world) newEdge(t *testing.T, cfg edge.Config) *edge.Edge {
	t.Helper()
	cfg.Version, cfg.Logger = "1", quiet
	e, err := edge.New(t.Context(), w.fleet.Join(t, permission.Edge, quiet), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func (w *world) start(t *testing.T, s *service.Service) *bus.Conn {
	t.Helper()
	conn := w.fleet.Join(t, s.Name(), quiet)
	r, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(context.Background()) })
	return conn
}

// times is how often a message was seen on a subject in the edges' account, after
// everything that was sent before has passed.
func (w *world) times(t *testing.T, subject string) int {
	t.Helper()
	for _, nc := range []*nats.Conn{w.evil, w.god} {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// And what JetStream answers to it: it works on requests one after the other.
	if _, err := w.god.Request("$JS.API.STREAM.INFO.KV_tasks", nil, bustest.Patience); err != nil {
		t.Fatal(err)
	}
	if err := w.god.Flush(); err != nil {
		t.Fatal(err)
	}
	last := w.god.NewInbox()
	if err := w.god.Publish(last, nil); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "all is seen", func() bool { return w.count(last) > 0 })
	return w.count(subject)
}

func (w *world) count(subject string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[subject]
}

// bounded is a context for actions that must not succeed.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Promptly)
	t.Cleanup(cancel)
	return ctx
}
