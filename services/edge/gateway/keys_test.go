package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// ledger is a service whose tools note each effect by its key.
type ledger struct {
	*service.Service
	started, release chan struct{}

	mu   sync.Mutex
	runs map[string]int
}

func newLedger() *ledger {
	l := &ledger{Service: service.New("ledger"), started: make(chan struct{}, 100), release: make(chan struct{}), runs: map[string]int{}}
	for name, idempotent := range map[string]bool{"note": false, "note_idempotent": true} {
		service.AddTool(l.Service, service.Tool{Name: name, Idempotent: idempotent}, func(ctx context.Context, c *service.Call, in struct {
			Hold bool `json:"hold,omitzero"`
		}) (string, error) {
			l.mu.Lock()
			l.runs[c.IdempotencyKey()]++
			l.mu.Unlock()
			if in.Hold {
				l.started <- struct{}{}
				select {
				case <-l.release:
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return "noted", nil
		})
	}
	return l
}

func (l *ledger) ran(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[key]
}

// keyEdge is an edge that can be killed: its connection is closed without notice.
func keyEdge(t *testing.T, url string) (g *gateway.Gateway, kill func()) {
	t.Helper()
	conn := bustest.Connect(t, url)
	return join(t, conn, "ledger", func(cfg *gateway.Config) {
		cfg.Deduplicator = gateway.NewKeys(store.NewOutcomes(conn), cfg.Caller, cfg.Tasks)
	}), conn.Close
}

// repeat makes a call again as long as it is refused for a temporary reason: the machine is slow.
func repeat(t *testing.T, g *gateway.Gateway, name, arguments, key string) (*gateway.Answer, error) {
	t.Helper()
	for end := time.Now().Add(bustest.Patience); ; {
		a, err := g.Do(t.Context(), keyed(name, arguments, "", key), nil)
		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Overloaded) || time.Now().After(end) {
			return a, err
		}
	}
}

func replayed(t *testing.T, g *gateway.Gateway, name, arguments, key string) {
	t.Helper()
	a, err := repeat(t, g, name, arguments, key)
	if err != nil || a.Result == nil || !a.Replayed {
		t.Fatalf("repeated: %v, %v", a, err)
	}
}

// M1: a client that leaves at any moment burns no key.
func TestM1NoKeyIsBurntByAClientThatLeaves(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := newLedger()
	edgetest.Serve(t, bustest.Connect(t, url), l.Service)
	one, _ := keyEdge(t, url)
	two, _ := keyEdge(t, url)
	const keys = 300
	for i := range keys {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		_, _ = one.Do(ctx, keyed("note", `{}`, "", fmt.Sprint("k", i)), nil)
		cancel()
	}
	burnt := 0
	for i := range keys {
		key := fmt.Sprint("k", i)
		var a *gateway.Answer
		var err error
		// If NATS stands still, the key is given back when that is over.
		bustest.Eventually(t, key+" is under way no more", func() bool {
			a, err = repeat(t, two, "note", `{}`, key)
			return !fault.Is(err, fault.Conflict)
		})
		if err != nil || a.Result == nil {
			burnt++
			t.Logf("%s: %v, ran %d times before", key, err, l.ran(key))
		}
		if n := l.ran(key); n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
	if burnt > 0 {
		t.Errorf("%d of %d keys are burnt", burnt, keys)
	}
}

// D3: a repetition at another edge gets the answer of a call whose edge has died, while the call
// runs and after it.
func TestD3AnotherEdgeHasTheAnswer(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (l *ledger, one, two *gateway.Gateway, kill, stop func()) {
		t.Parallel()
		url := bustest.Server(t)
		l = newLedger()
		stop = edgetest.Serve(t, bustest.Connect(t, url), l.Service)
		one, kill = keyEdge(t, url)
		two, _ = keyEdge(t, url)
		return l, one, two, kill, stop
	}
	// begin starts a call at an edge.
	begin := func(t *testing.T, l *ledger, g *gateway.Gateway, name string) <-chan error {
		ended := begin(t.Context(), g, keyed(name, `{"hold":true}`, "", "k"))
		<-l.started
		return ended
	}
	once := func(t *testing.T, l *ledger) {
		t.Helper()
		if n := l.ran("k"); n != 1 {
			t.Errorf("ran %d times", n)
		}
	}
	t.Run("the edge lives: a repetition waits", func(t *testing.T) {
		l, one, two, _, _ := setup(t)
		first := begin(t, l, one, "note")
		var waiting sync.WaitGroup
		for i := range 6 {
			g := []*gateway.Gateway{one, two}[i%2]
			waiting.Go(func() { replayed(t, g, "note", `{"hold":true}`, "k") })
		}
		l.release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		waiting.Wait()
		once(t, l)
	})
	t.Run("the edge dies, the call goes on", func(t *testing.T) {
		l, one, two, kill, _ := setup(t)
		first := begin(t, l, one, "note")
		kill()
		go func() { l.release <- struct{}{} }()
		replayed(t, two, "note", `{"hold":true}`, "k")
		once(t, l)
		<-first
	})
	t.Run("the edge dies, the call is over", func(t *testing.T) {
		l, one, two, kill, _ := setup(t)
		first := begin(t, l, one, "note")
		kill()
		l.release <- struct{}{}
		<-first
		replayed(t, two, "note", `{"hold":true}`, "k")
		replayed(t, two, "note", `{"hold":true}`, "k") // it is in the bucket by now
		once(t, l)
	})
	for name, runs := range map[string]int{"note": 1, "note_idempotent": 2} {
		t.Run("edge and instance die, "+name, func(t *testing.T) {
			t.Parallel()
			url, l := bustest.Server(t), newLedger()
			stop := edgetest.Serve(t, bustest.Connect(t, url), l.Service)
			one, kill := keyEdge(t, url)
			first := begin(t, l, one, name)
			kill()
			stop()
			<-first
			next := newLedger()
			edgetest.Serve(t, bustest.Connect(t, url), next.Service)
			two, _ := keyEdge(t, url)
			go func() {
				select {
				case next.release <- struct{}{}:
				case <-t.Context().Done():
				}
			}()
			a, err := repeat(t, two, name, `{"hold":true}`, "k")
			if runs == 2 && (err != nil || a.Result == nil) {
				t.Errorf("an idempotent tool: %v, %v", a, err)
			}
			if runs == 1 && !is(err, fault.PeerLost, fault.Unknown) {
				t.Errorf("nobody can know: %v", err)
			}
			if n := l.ran("k") + next.ran("k"); n != runs {
				t.Errorf("ran %d times, want %d", n, runs)
			}
		})
	}
	t.Run("the instance is silent, and answers later", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		network := &bustest.Network{}
		conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Logger: bustest.Logger(t), Dialer: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		l := newLedger()
		edgetest.Serve(t, conn, l.Service)
		one, _ := keyEdge(t, url)
		two, _ := keyEdge(t, url)
		first := begin(t, l, one, "note")
		network.Mute()
		if err := <-first; !is(err, fault.PeerLost, fault.Unknown) {
			t.Fatalf("the first call: %v", err)
		}
		var f *fault.Error
		if _, err := repeat(t, two, "note", `{"hold":true}`, "k"); !errors.As(err, &f) || f.Executed != fault.Unknown || !strings.Contains(f.Message, "ask again with the same key") || f.RetryAfter == 0 {
			t.Errorf("while it is silent: %v", err)
		}
		l.release <- struct{}{}
		network.Cut()
		network.Mend()
		bustest.Eventually(t, "it answers", func() bool {
			a, err := repeat(t, two, "note", `{"hold":true}`, "k")
			return err == nil && a.Result != nil && a.Replayed
		})
		once(t, l)
	})
	t.Run("its client left, the call went on", func(t *testing.T) {
		l, one, two, _, _ := setup(t)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := one.Do(ctx, keyed("note", `{"hold":true}`, "", "k"), nil)
			ended <- err
		}()
		<-l.started
		leave()
		if err := <-ended; !fault.Is(err, fault.Cancelled) {
			t.Fatal(err)
		}
		_, err := repeat(t, two, "note", `{"hold":true}`, "k")
		var f *fault.Error
		if !errors.As(err, &f) || f.Executed != fault.Unknown {
			t.Errorf("what may have run: %v", err)
		}
		once(t, l)
	})
}

// D2: calls that an edge has made are not made again when the bucket is lost.
func TestD2ALostBucketDoublesNothing(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := newLedger()
	stop := edgetest.Serve(t, bustest.Connect(t, url), l.Service)
	one, _ := keyEdge(t, url)
	for _, key := range []string{"instance lives", "instance died"} {
		if a, err := repeat(t, one, "note", `{}`, key); err != nil || a.Result == nil {
			t.Fatal(err)
		}
	}
	lose := func() {
		bucket := bustest.Connect(t, url).Bucket(bus.OutcomesBucket)
		var keys []string
		if err := bucket.Each(t.Context(), "", func(key string, _ []byte) { keys = append(keys, key) }); err != nil || len(keys) != 2 {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, key := range keys {
			if err := bucket.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	lose()
	replayed(t, one, "note", `{}`, "instance lives")
	// A key that another edge is asked for then is in the bucket again.
	two, _ := keyEdge(t, url)
	replayed(t, two, "note", `{}`, "instance lives")
	stop()
	next := newLedger()
	edgetest.Serve(t, bustest.Connect(t, url), next.Service)
	bustest.Eventually(t, "the instance that ran it is gone", func() bool {
		_, err := repeat(t, one, "note", `{}`, "instance died")
		var f *fault.Error
		return errors.As(err, &f) && f.Executed == fault.Yes
	})
	for _, key := range []string{"instance lives", "instance died"} {
		if n := l.ran(key) + next.ran(key); n != 1 {
			t.Errorf("%s: ran %d times", key, n)
		}
	}
}

// A bucket that takes as long for a record as the audit trail may take for its own is not down.
func TestASlowBucketTakesKeys(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	edgetest.Serve(t, conn, newLedger().Service)
	g, _ := keyEdge(t, url)
	stream, err := conn.JetStream().Stream(t.Context(), "KV_"+bus.OutcomesBucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	records := cfg.Subjects[0]
	cfg.Subjects = []string{"elsewhere"}
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.NATS().Subscribe(records, func(msg *nats.Msg) {
		time.AfterFunc(650*time.Millisecond, func() { _ = msg.Respond([]byte(`{"stream":"KV_outcomes","seq":1}`)) })
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := repeat(t, g, "note", `{}`, "k"); err != nil || a.Result == nil {
		t.Errorf("%v, %v", a, err)
	}
}
