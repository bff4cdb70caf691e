package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// The model: a call has a key and a tool, and the ledger knows how often the tool had its effect
// for that key. Whatever happens to edges, services, networks and stores, three rules hold. "No"
// is said only of a key without an effect. "Yes" and a result are said only of a key with an
// effect. A key has at most one effect.

// honestLedger has the effects of all instances of its service.
type honestLedger struct {
	mu   sync.Mutex
	runs map[string]int
	// after is called in the handler after the effect and before the answer, with the connection
	// of the instance.
	after func(context.Context, *bus.Conn)
}

func (l *honestLedger) effect(ctx context.Context, at *bus.Conn, key string, once bool) {
	l.mu.Lock()
	if !once || l.runs[key] == 0 {
		l.runs[key]++
	}
	after := l.after
	l.mu.Unlock()
	if after != nil {
		after(ctx, at)
	}
}

func (l *honestLedger) ran(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[key]
}

func (l *honestLedger) onEffect(f func(context.Context, *bus.Conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after = f
}

// serve starts an instance.
func (l *honestLedger) serve(t *testing.T, url string) {
	t.Helper()
	s, conn := service.New("ledger"), bustest.Connect(t, url)
	for name, tool := range map[string]service.Tool{"plain": {}, "idempotent": {Idempotent: true}, "keeps": {KeepsKeys: true}, "reads": {ReadOnly: true}} {
		tool.Name = name
		service.AddTool(s, tool, func(ctx context.Context, c *service.Call, in struct {
			Key string `json:"key"`
		}) (string, error) {
			l.effect(ctx, conn, in.Key, tool.KeepsKeys)
			return "noted", nil
		})
	}
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = running.Stop(ctx) // if it died, nobody hears that it leaves
	})
}

// honestEdge is an edge whose policies, store and network a schedule takes away.
type honestEdge struct {
	gateway.Open
	t            *testing.T
	gateway      *gateway.Gateway
	calls, store *bustest.Network
	conn, keys   *bus.Conn
	mu           sync.Mutex
	refuse       map[string]error
}

func (e *honestEdge) at(link string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refuse[link]
}

func (e *honestEdge) refuses(link string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuse[link] = err
}

func (e *honestEdge) Ready(gateway.View) error                     { return e.at("gate") }
func (e *honestEdge) Begin(context.Context, gateway.View) error    { return e.at("begin") }
func (e *honestEdge) Record(context.Context, gateway.Record) error { return nil }
func (e *honestEdge) Authorize(context.Context, gateway.View) error {
	return e.at("authorize")
}

func (e *honestEdge) Acquire(context.Context, gateway.View) (func(), error) {
	return func() {}, e.at("limit")
}

func newHonestEdge(t *testing.T, url string) *honestEdge {
	t.Helper()
	e := &honestEdge{t: t, calls: &bustest.Network{}, store: &bustest.Network{}, refuse: map[string]error{}}
	open := func(n *bustest.Network) *bus.Conn {
		conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "honest", Logger: bustest.Logger(t), Dialer: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	e.conn, e.keys = open(e.calls), open(e.store)
	e.gateway = join(t, e.conn, "ledger", func(cfg *gateway.Config) {
		cfg.Auditor, cfg.Access, cfg.Limiter = e, e, e
		cfg.Deduplicator = gateway.NewKeys(store.NewOutcomes(e.keys), cfg.Caller, cfg.Tasks)
	})
	return e
}

// honest is an edge with one instance.
func honest(t *testing.T) (*honestLedger, *honestEdge) {
	t.Helper()
	url, l := bustest.Server(t), &honestLedger{runs: map[string]int{}}
	l.serve(t, url)
	return l, newHonestEdge(t, url)
}

// mend gives everything back.
func (e *honestEdge) mend() {
	e.t.Helper()
	e.mu.Lock()
	clear(e.refuse)
	e.mu.Unlock()
	for n, conn := range map[*bustest.Network]*bus.Conn{e.calls: e.conn, e.store: e.keys} {
		n.Mend()
		bustest.Eventually(e.t, "the network is back", func() bool {
			ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
			defer cancel()
			_, err := conn.Peer(ctx)
			return err == nil
		})
	}
}

// honestFaults are the faults that a schedule can add to one call. Each returns a function that
// undoes it.
var honestFaults = []struct {
	name string
	do   func(w *honestWorld, e *honestEdge, ctx context.Context) context.Context
}{
	{"nothing", func(_ *honestWorld, _ *honestEdge, ctx context.Context) context.Context { return ctx }},
	{"again nothing", func(_ *honestWorld, _ *honestEdge, ctx context.Context) context.Context { return ctx }},
	{"gate", refusedAt("gate", fault.Unavailable)},
	{"begin", refusedAt("begin", fault.Unavailable)},
	{"limit", refusedAt("limit", fault.RateLimited)},
	{"authorize", refusedAt("authorize", fault.Forbidden)},
	{"unseen", func(_ *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		e.refuses("authorize", gateway.ErrUnseen)
		return ctx
	}},
	{"store away", func(_ *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		e.store.Cut()
		return ctx
	}},
	{"store and gate away", func(_ *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		e.store.Cut()
		return refusedAt("gate", fault.Unavailable)(nil, e, ctx)
	}},
	{"calls away", func(_ *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		e.calls.Cut()
		return ctx
	}},
	{"answer lost", func(w *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		w.ledger.onEffect(func(context.Context, *bus.Conn) { e.calls.Cut() })
		return ctx
	}},
	{"store lost in the effect", func(w *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		w.ledger.onEffect(func(context.Context, *bus.Conn) { e.store.Cut() })
		return ctx
	}},
	{"client leaves", func(w *honestWorld, _ *honestEdge, ctx context.Context) context.Context {
		left, leave := context.WithCancel(ctx)
		w.ledger.onEffect(func(ctx context.Context, _ *bus.Conn) {
			leave()
			<-ctx.Done()
		})
		return left
	}},
	{"instance dies", func(w *honestWorld, _ *honestEdge, ctx context.Context) context.Context {
		w.ledger.onEffect(dies(&w.died))
		return ctx
	}},
}

// dies kills one instance after its effect and before its answer, and sets died. The others,
// which are asked again meanwhile, do not wait for it.
func dies(died *atomic.Bool) func(context.Context, *bus.Conn) {
	return func(ctx context.Context, at *bus.Conn) {
		if died.CompareAndSwap(false, true) {
			at.Close()
			<-ctx.Done()
		}
	}
}

func refusedAt(link string, reason fault.Reason) func(*honestWorld, *honestEdge, context.Context) context.Context {
	return func(_ *honestWorld, e *honestEdge, ctx context.Context) context.Context {
		e.refuses(link, fault.New(reason, "refused at %s", link))
		return ctx
	}
}

type honestWorld struct {
	t      *testing.T
	url    string
	ledger *honestLedger
	edges  []*honestEdge
	died   atomic.Bool
	said   map[fault.Executed]int
}

// call makes one call of a schedule, and compares the answer with the ledger.
func (w *honestWorld) call(step int, tool, key string, e *honestEdge, faulty int) {
	w.t.Helper()
	before := w.ledger.ran(key)
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Second)
	defer cancel()
	f := honestFaults[faulty]
	answer, err := e.gateway.Do(f.do(w, e, ctx), keyed(tool, fmt.Sprintf(`{"key":%q}`, key), "", key), nil)
	w.ledger.onEffect(nil)
	said, ran := fault.Yes, w.ledger.ran(key)
	if err != nil {
		said = fault.From(err).Executed
	}
	w.said[said]++
	at := fmt.Sprintf("step %d, %s with key %s, %s", step, tool, key, f.name)
	switch {
	case said == fault.No && ran > 0:
		w.t.Errorf("%s: executed is no, and it ran: %v", at, err)
	case said == fault.Yes && ran == 0:
		w.t.Errorf("%s: executed is yes, and nothing ran: %v %v", at, answer, err)
	case err == nil && answer.Replayed && ran != before:
		w.t.Errorf("%s: it ran, and is said to be a repetition", at)
	case ran > 1 && tool != "idempotent":
		w.t.Errorf("%s: it ran %d times", at, ran)
	}
	e.mend()
	if w.died.Swap(false) {
		w.ledger.serve(w.t, w.url)
	}
}

// Executed is true, whatever a schedule of faults takes away. The seed decides the schedule.
func TestExecutedIsTrue(t *testing.T) {
	t.Parallel()
	const seeds, steps = 6, 16
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(uint64(seed), 28))
			url := bustest.Server(t)
			w := &honestWorld{t: t, url: url, ledger: &honestLedger{runs: map[string]int{}}, said: map[fault.Executed]int{}}
			w.ledger.serve(t, url)
			w.ledger.serve(t, url)
			for range 2 {
				w.edges = append(w.edges, newHonestEdge(t, url))
			}
			for step := range steps {
				tool := []string{"plain", "plain", "idempotent", "keeps"}[dice.IntN(4)]
				// Few keys, so that most are repeated.
				key := fmt.Sprint(tool, dice.IntN(4))
				w.call(step, tool, key, w.edges[dice.IntN(2)], dice.IntN(len(honestFaults)))
				if t.Failed() {
					return
				}
			}
			for _, x := range []fault.Executed{fault.No, fault.Unknown, fault.Yes} {
				if w.said[x] == 0 {
					t.Errorf("the schedule never came to %s: %v", x, w.said)
				}
			}
		})
	}
}

// If the service keeps keys and the instance dies after the effect, the call has its answer at
// once: the edge asks another instance. Any other such call is unknown.
func TestKeptKeysAreAskedForAgain(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := &honestLedger{runs: map[string]int{}}
	l.serve(t, url)
	l.serve(t, url)
	e := newHonestEdge(t, url)
	call := func(tool, key string) (*gateway.Answer, error) {
		return e.gateway.Do(t.Context(), keyed(tool, fmt.Sprintf(`{"key":%q}`, key), "", key), nil)
	}
	l.onEffect(dies(new(atomic.Bool)))
	if _, err := call("keeps", "k"); err != nil || l.ran("k") != 1 {
		t.Fatalf("it ran %d times, and its client is told %v", l.ran("k"), err)
	}
	l.serve(t, url)
	l.onEffect(dies(new(atomic.Bool)))
	if _, err := call("plain", "p"); err == nil || fault.From(err).Executed != fault.Unknown {
		t.Errorf("nobody knows what became of a call without kept keys, and its client is told %v", err)
	}
}

// A refusal says "no" for a key that nobody used, "yes" for a used one, and "unknown" if the
// record cannot be read.
func TestRefusalsSayWhatTheKeyDid(t *testing.T) {
	t.Parallel()
	l, e := honest(t)
	call := func(tool, key, arguments string) error {
		_, err := e.gateway.Do(t.Context(), keyed(tool, arguments, "", key), nil)
		return err
	}
	const used, other = `{"key":"used"}`, `{"key":"other"}`
	for _, tool := range []string{"plain", "keeps"} {
		if err := call(tool, "used "+tool, used); err != nil {
			t.Fatal(err)
		}
	}
	refusals := map[string]error{
		"limit": fault.New(fault.RateLimited, "refused"), "gate": fault.New(fault.Unavailable, "refused"), "authorize": fault.New(fault.Forbidden, "refused"),
	}
	expect := func(what, tool, key, arguments string, want fault.Executed) {
		t.Helper()
		if err := call(tool, key, arguments); err == nil || fault.From(err).Executed != want {
			t.Errorf("%s: %v, want executed %s", what, err, want)
		}
	}
	for link, refused := range refusals {
		e.refuses(link, refused)
		expect(link+", a new key", "plain", "new", used, fault.No)
		expect(link+", a used key", "plain", "used plain", used, fault.Yes)
		expect(link+", another call's key", "plain", "used plain", other, fault.No)
		expect(link+", a key that the service keeps", "keeps", "used keeps", used, fault.Unknown)
		expect(link+", no key", "plain", "", used, fault.No)
		expect(link+", no valid key", "plain", "\x00", used, fault.No)
		e.refuses(link, nil)
	}
	expect("no such tool", "gone", "used plain", used, fault.Unknown)
	expect("no such tool, a new key", "gone", "new", used, fault.Unknown) // its service may have kept it
	e.store.Cut()
	expect("store away", "plain", "used plain", used, fault.Unknown)
	e.refuses("gate", refusals["gate"])
	expect("gate, store away", "plain", "used plain", used, fault.Unknown)
	expect("gate, store away, no key", "plain", "", used, fault.No)
	e.mend()
	if err := call("plain", "used plain", used); err != nil || l.ran("used") != 1 {
		t.Errorf("%v, %d effects", err, l.ran("used"))
	}
}

// The key of a call does not distinguish a target that the caller may not see from one that does
// not exist.
func TestKeysDoNotShowHiddenTools(t *testing.T) {
	t.Parallel()
	_, e := honest(t)
	say := func(tool, key string) *fault.Error {
		_, err := e.gateway.Do(t.Context(), keyed(tool, `{"key":"x"}`, "", key), nil)
		return fault.From(err)
	}
	if f := say("plain", "used"); f != nil {
		t.Fatal(f)
	}
	for _, refused := range []map[string]error{
		{"authorize": gateway.ErrUnseen},
		{"authorize": gateway.ErrUnseen, "limit": fault.New(fault.RateLimited, "refused")},
	} {
		for link, err := range refused {
			e.refuses(link, err)
		}
		for _, key := range []string{"new", "used"} {
			want := say("absent", key)
			for _, tool := range []string{"plain", "idempotent", "keeps", "reads"} {
				if tool == "plain" && key == "used" {
					continue // the caller's own call of it ran, and the caller is told so
				}
				got := say(tool, key)
				if got == nil || got.Executed != want.Executed || strings.ReplaceAll(got.Message, tool, "absent") != want.Message {
					t.Errorf("%s with a key that is %s: %v, and of one that is not there %v", tool, key, got, want)
				}
			}
		}
	}
}
