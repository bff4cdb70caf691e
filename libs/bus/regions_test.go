package bus_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// site is one region: two instances of a service, and an edge.
type site struct {
	conn      *bus.Conn
	caller    *bus.Caller
	registry  *registry.Registry
	instances map[string]bool
	leave     []func()
}

// open starts two instances, whose calls wait as long as hold is open.
func (s *site) open(t *testing.T, url string, running chan<- string, hold <-chan struct{}) {
	t.Helper()
	s.instances, s.leave = map[string]bool{}, nil
	for range 2 {
		conn := bustest.Join(t, url)
		var name atomic.Value
		server, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
			if string(req.Arguments) == `{"wait":true}` {
				running <- name.Load().(string)
				<-hold
			}
			return &busv1.Result{Json: []byte(`{}`)}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		name.Store(server.Instance())
		s.instances[server.Instance()] = true
		announce(t, conn, "svc", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
		s.leave = append(s.leave, conn.Close) // as if it were killed: nobody is told
		t.Cleanup(func() { _ = server.Drain(context.Background()) })
	}
}

// stays waits until all calls run in this region. An instance that a busy machine delays for half a
// second seems to hang until it announces itself.
func (s *site) stays(t *testing.T, when string) {
	t.Helper()
	bustest.Eventually(t, "20 calls stay, "+when, func() bool { return s.here(t, 20) == 20 })
}

// here makes calls one after the other, none of which may fail, and returns how many ran in this
// region.
func (s *site) here(t *testing.T, n int) (here int) {
	t.Helper()
	for i := range n {
		var ran bus.Ran
		if _, err := s.caller.CallWith(t.Context(), "svc", toolCall(`{}`), bus.Options{Harmless: true, Ran: &ran}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if s.instances[ran.Instance] {
			here++
		}
	}
	return here
}

// knows waits until the edge knows the instances of a region.
func (s *site) knows(t *testing.T, other *site) {
	t.Helper()
	bustest.Eventually(t, "an edge knows who is there", func() bool {
		for instance := range other.instances {
			if all := s.registry.Services(); len(all) != 1 || !slices.Contains(all[0].Instances, instance) {
				return false
			}
		}
		return true
	})
}

// A service is called in the edge's region. It is called elsewhere only while there is no free slot
// or no instance in that region. Without a connection to the other region calls continue, and only
// the region with the storage has it.
func TestRegions(t *testing.T) {
	t.Parallel()
	regions := bustest.NewRegions(t)
	running, hold := make(chan string, 200), make(chan struct{})
	sites := map[string]*site{"home": {}, "away": {}}
	urls := map[string]string{"home": regions.Home.URL(), "away": regions.Away.URL()}
	for _, name := range []string{"home", "away"} {
		s := sites[name]
		s.conn = bustest.Join(t, urls[name])
		ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
		_, err := storage.Ensure(ctx, s.conn, storage.Auto)
		cancel()
		if err != nil {
			t.Fatalf("storage, from %s: %v", name, err)
		}
		if s.conn.Region() != name {
			t.Fatalf("%s is said to be %q", name, s.conn.Region())
		}
		if s.registry, err = registry.Watch(t.Context(), s.conn, func([]registry.Service) {}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.registry.Close)
		s.caller = bustest.Caller(t, s.conn)
		s.open(t, urls[name], running, hold)
	}
	home, away := sites["home"], sites["away"]
	put := func(s *site) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.conn.Bucket(bus.SessionsBucket).Put(ctx, "k", []byte("v"))
	}
	for name, s := range sites {
		s.knows(t, home)
		s.knows(t, away)
		s.stays(t, name)
	}

	// No free slots: each of the two instances here has 32 calls before the others get one.
	const calls = 80
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := away.caller.Call(t.Context(), "svc", toolCall(`{"wait":true}`), nil)
			ended <- err
		}()
	}
	stayed := 0
	for range calls {
		if away.instances[await(t, "a call runs", running)] {
			stayed++
		}
	}
	if stayed < 64 || stayed == calls {
		t.Errorf("%d of %d calls at once stayed", stayed, calls)
	}
	close(hold)
	for range calls {
		if err := await(t, "a call ends", ended); err != nil {
			t.Error(err)
		}
	}

	// No instance in the region.
	for _, leave := range away.leave {
		leave()
	}
	if n := away.here(t, 20); n != 0 {
		t.Errorf("%d calls ran where nobody is", n)
	}
	away.open(t, urls["away"], running, hold)
	away.knows(t, away)
	away.stays(t, "back")

	// No connection between the regions.
	regions.Cut()
	bustest.Eventually(t, "the storage is away", func() bool { return put(away) != nil })
	bustest.Eventually(t, "the region that keeps the storage has it", func() bool { return put(home) == nil })
	for name, s := range sites {
		s.stays(t, name+" cut off")
	}
	regions.Mend()
	bustest.Eventually(t, "the storage is back", func() bool { return put(away) == nil })
	for name, s := range sites {
		s.knows(t, home)
		s.knows(t, away)
		s.stays(t, name+" joined again")
	}
	bustest.Eventually(t, "what is kept at home is read", func() bool {
		v, err := away.conn.Bucket(bus.SessionsBucket).Get(t.Context(), "k")
		return err == nil && string(v) == "v"
	})
}

// Which instance a call goes to, by where it is and how many calls it has.
func TestNearest(t *testing.T) {
	t.Parallel()
	many := map[string]int{"far0": 0}
	for i := range 39 {
		many[fmt.Sprint("far", i+1)] = 0
	}
	many["near"] = 31
	for name, c := range map[string]struct {
		calls map[string]int
		full  bool
		want  string
	}{
		"nearest first":             {map[string]int{"near": 31, "far": 0}, false, "near"},
		"until it has too many":     {map[string]int{"near": 33, "far": 0}, false, "far"},
		"the fewest of a region":    {map[string]int{"near": 3, "near2": 2, "far": 0}, false, "near2"},
		"elsewhere when it is full": {map[string]int{"near": 0, "far": 20}, true, "far"},
		"here all the same":         {map[string]int{"near": 0, "far": 40}, true, "near"},
		"one that does not say":     {map[string]int{"near": 1, "1": 0}, false, "1"},
		"one among many":            {many, false, "near"},
	} {
		if got := bus.Choose(c.calls, c.full); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
