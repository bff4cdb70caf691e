// Package trailtest is the suite that every store of the audit trail has to pass. Start
// with Run.
package trailtest

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// Engine is a database for one test.
type Engine struct {
	// Open opens another store on it, as another process would.
	Open func() trail.Store
	// Exec changes the database behind the store's back.
	Exec func(statement string)
}

// Run runs the suite; start makes an engine for each test.
func Run(t *testing.T, start func(*testing.T) Engine) {
	for name, test := range map[string]func(*testing.T, Engine){
		"events keep every field": fields, "an event counts once": once, "writers at once make one chain": writers,
		"lists are filtered": filters, "pages do not move": pages, "no filter is code": injection,
		"checkpoints follow growth": checkpoints, "retention leaves a chain that verifies": prune, "a follower gets each event once": follow, "answers to a follower are bounded": followMany,
		"an untouched trail verifies": untouched, "a row behind the end stops its chain": stray, "what cannot be known is said": unsigned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
	t.Run("no event is taken for a row of somebody else", func(t *testing.T) {
		t.Parallel()
		impostor(t, start)
	})
	t.Run("tampering is found", func(t *testing.T) {
		t.Parallel()
		tampering(t, start)
	})
}

// Epoch is when the events of Event happen.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 600_000_007, time.UTC)

// Event is the n-th event of a tenant; every second one has the same principal.
func Event(tenant string, n int) trail.Event {
	call := fmt.Sprintf("CALL%s%06d", strings.ToUpper(tenant), n)
	return trail.Event{
		ID: call + "-2", Call: call, Time: Epoch.Add(time.Duration(n) * time.Second), Tenant: tenant, Principal: fmt.Sprintf("user%d", n%2),
		ClientName: "a client", ClientVersion: "1.2", Door: "streamable", Method: "tools/call", Name: fmt.Sprintf("tool%d", n%3), Service: "svc",
		Arguments: jsontext.Value(fmt.Sprintf(`{"n":%d,"é":"\u0000"}`, n)), ArgumentsNote: "cut", ArgumentsDigest: trail.Digest{1, 0, 255},
		Outcome: "ok", Executed: "yes", DurationNano: 1234567, Edge: "edge", Traceparent: "00-1-2-01", IdempotencyDigest: trail.Digest{9}, Delayed: n%2 == 1,
		Details: trail.Details{
			Effect: true, Repeated: 3, Parent: "PARENT" + strconv.Itoa(n), Approval: "agreed", ApprovalBy: "é\"", ApprovalTime: Epoch, ApprovalDoor: "rest",
			Instance: "i1", ServiceVersion: "1.2.3", Program: true,
		},
	}
}

// Events are the events of a tenant from first to last.
func Events(tenant string, first, last int) []trail.Event {
	var all []trail.Event
	for n := first; n <= last; n++ {
		all = append(all, Event(tenant, n))
	}
	return all
}

// Key is a key to sign with, and to trust.
func Key(t testing.TB) (trail.Signer, trail.Trusted) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return trail.SignWith(private), trail.Trusted{public}
}

func open(t testing.TB, e Engine) trail.Store {
	t.Helper()
	s := e.Open()
	t.Cleanup(s.Close)
	return s
}

// Append adds events, and requires how many of them are new.
func Append(t testing.TB, s trail.Store, want int, events ...trail.Event) {
	t.Helper()
	if n, err := s.Append(t.Context(), events); err != nil || n != want {
		t.Fatalf("%d events added, %v; want %d", n, err, want)
	}
}

func list(t testing.TB, s trail.Store, f trail.Filter) []trail.Row {
	t.Helper()
	rows, _, err := s.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func everyTenant(string) bool { return true }

// Verify checks a trail and requires that it is right.
func Verify(t testing.TB, s trail.Store, trusted trail.Trusted, witnesses ...trail.Checkpoint) trail.Report {
	t.Helper()
	r, err := trail.Verify(t.Context(), s, trusted, witnesses, everyTenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Chains {
		if c.Problem != nil {
			t.Fatalf("tenant %q: %+v", c.Tenant, *c.Problem)
		}
	}
	return r
}

func fields(t *testing.T, e Engine) {
	s := open(t, e)
	full, empty := Event("acme", 1), trail.Event{ID: "X-2", Call: "X", Time: time.Unix(0, 1).UTC(), Tenant: "acme"}
	Append(t, s, 2, full, empty)
	rows, err := s.Rows(t.Context(), "acme", 0, 10)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v %v", rows, err)
	}
	if !reflect.DeepEqual(rows[0].Event, full) {
		t.Errorf("is   %+v\nwant %+v", rows[0].Event, full)
	}
	if rows[0].Seq != 1 || rows[1].Seq != 2 {
		t.Errorf("numbers %d, %d", rows[0].Seq, rows[1].Seq)
	}
	prev := trail.Genesis("acme")
	for _, r := range rows {
		if prev = trail.HashRow(prev, r.Seq, &r.Event); prev.String() != r.Hash.String() {
			t.Errorf("row %d has another hash", r.Seq)
		}
	}
	for id, want := range map[string]int{full.ID: 1, full.Call: 1, "X": 1, "none": 0} {
		if rows, err := s.Show(t.Context(), id); err != nil || len(rows) != want {
			t.Errorf("show %s: %d rows, %v", id, len(rows), err)
		}
	}
}

func once(t *testing.T, e Engine) {
	s := open(t, e)
	_, trusted := Key(t)
	one := Event("a", 1)
	Append(t, s, 1, one, one)
	for range 100 {
		Append(t, s, 0, one)
	}
	Append(t, s, 2, append(Events("a", 1, 3), Event("a", 2))...)
	// An event of another edge with the same id is another event, and keeps none out.
	forged := Event("a", 4)
	forged.Edge, forged.Principal = "whoever", "mallory"
	Append(t, s, 1, forged)
	Append(t, s, 1, Event("a", 4))
	if rows, err := s.Show(t.Context(), forged.Call); err != nil || len(rows) != 2 || rows[0].Edge != "edge" || rows[1].Edge != "whoever" {
		t.Errorf("%v %v", rows, err)
	}
	if n, err := s.Append(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	if r := Verify(t, s, trusted); r.Chains[0].Last != 5 {
		t.Errorf("%+v", r)
	}
}

func writers(t *testing.T, e Engine) {
	_, trusted := Key(t)
	stores := []trail.Store{open(t, e), open(t, e)}
	const workers, batches, size = 8, 6, 20
	added := make(chan int, workers*batches)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for b := range batches {
				// Each event is written by two workers, half of them by another store.
				first := (w/2*batches + b) * size
				batch := append(Events("b", first, first+size-1), Events("a", first, first+size-1)...)
				if w%2 == 1 {
					batch = append(batch[size:], batch[:size]...)
				}
				n, err := stores[w%2].Append(t.Context(), batch)
				if err != nil {
					t.Error(err)
				}
				added <- n
			}
		})
	}
	wg.Wait()
	close(added)
	total := 0
	for n := range added {
		total += n
	}
	const want = workers / 2 * batches * size
	if total != 2*want {
		t.Errorf("%d added, want %d", total, 2*want)
	}
	for _, c := range Verify(t, stores[0], trusted).Chains {
		if c.First != 1 || c.Last != want {
			t.Errorf("%+v", c)
		}
	}
}

func filters(t *testing.T, e Engine) {
	s := open(t, e)
	odd := Event("acme", 7)
	odd.Method, odd.Name, odd.Outcome, odd.Door = "resources/read", "note:///one", "forbidden", "stdio"
	begun, ended, lost := Event("", 8), Event("", 8), Event("", 9)
	begun.ID, begun.Outcome = begun.Call+"-1", trail.Begun
	lost.ID, lost.Outcome = lost.Call+"-1", trail.Begun
	Append(t, s, 10, append(Events("acme", 0, 6), odd, begun, ended)...)
	Append(t, s, 1, lost)
	for name, c := range map[string]struct {
		f    trail.Filter
		want int
	}{
		"nothing":            {trail.Filter{}, 10},
		"begun ones too":     {trail.Filter{All: true}, 11},
		"since":              {trail.Filter{Since: Epoch.Add(3 * time.Second)}, 7},
		"until":              {trail.Filter{Until: Epoch.Add(3 * time.Second)}, 3},
		"tenant":             {trail.Filter{Tenant: "acme"}, 8},
		"no tenant":          {trail.Filter{Tenant: trail.NoTenant}, 2},
		"principal":          {trail.Filter{Principal: "user1"}, 5},
		"method":             {trail.Filter{Method: "resources/read"}, 1},
		"name":               {trail.Filter{Name: "note:///one"}, 1},
		"outcome":            {trail.Filter{Outcome: "forbidden"}, 1},
		"never came back":    {trail.Filter{Outcome: trail.Begun}, 1},
		"door":               {trail.Filter{Door: "stdio"}, 1},
		"call":               {trail.Filter{Call: begun.Call, All: true}, 2},
		"several":            {trail.Filter{Tenant: "acme", Principal: "user1", Name: "tool0"}, 1},
		"nobody":             {trail.Filter{Principal: "USER1"}, 0},
		"limit":              {trail.Filter{Limit: 3}, 3},
		"more than the most": {trail.Filter{Limit: 1 << 30}, 10},
	} {
		if got := list(t, s, c.f); len(got) != c.want {
			t.Errorf("%s: %d rows, want %d", name, len(got), c.want)
		}
	}
}

func pages(t *testing.T, e Engine) {
	s := open(t, e)
	Append(t, s, 25, Events("a", 0, 24)...)
	same := Event("a", 10)
	same.ID, same.Call = "ZZ-2", "ZZ" // of the same moment
	Append(t, s, 1, same)
	f := trail.Filter{Limit: 4}
	var seen []string
	for {
		rows, next, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen = append(seen, r.ID)
		}
		if next == "" {
			break
		}
		f.Cursor = next
		Append(t, s, 1, Event("a", 100+len(seen)))
	}
	if len(seen) != 26 || seen[0] != Event("a", 24).ID || seen[25] != Event("a", 0).ID {
		t.Errorf("%d: %v", len(seen), seen)
	}
	for _, cursor := range []string{"x", "!", "MSAg", "bm9uZQ"} {
		if _, _, err := s.List(t.Context(), trail.Filter{Cursor: cursor}); err != nil && !errors.Is(err, trail.ErrFilter) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func injection(t *testing.T, e Engine) {
	s := open(t, e)
	Append(t, s, 3, Events("a", 0, 2)...)
	for _, evil := range []string{"' OR '1'='1", "'; DROP TABLE audit_event; --", `" OR ""="`, "%", "_", "a' --", "$1", "?"} {
		f := trail.Filter{Tenant: evil, Principal: evil, Method: evil, Name: evil, Outcome: evil, Door: evil, Call: evil}
		if rows := list(t, s, f); len(rows) != 0 {
			t.Errorf("%s: %d rows", evil, len(rows))
		}
		if rows, err := s.Show(t.Context(), evil); err != nil || len(rows) != 0 {
			t.Errorf("%s: %d rows, %v", evil, len(rows), err)
		}
		one := Event(evil, 1)
		one.ID, one.Name = "evil "+evil, evil
		Append(t, s, 1, one)
		if rows := list(t, s, trail.Filter{Tenant: evil, Name: evil}); len(rows) != 1 {
			t.Errorf("%s: %d rows of its own", evil, len(rows))
		}
	}
}

func checkpoints(t *testing.T, e Engine) {
	s := open(t, e)
	sign, trusted := Key(t)
	make := func(want int) {
		t.Helper()
		made, err := s.Checkpoint(t.Context(), sign)
		if err != nil || len(made) != want {
			t.Fatalf("%d made, %v; want %d", len(made), err, want)
		}
		for _, c := range made {
			if !trusted.Signed(&c) {
				t.Error("not signed")
			}
		}
	}
	make(0)
	Append(t, s, 4, append(Events("a", 1, 3), Event("b", 1))...)
	make(2)
	make(0)
	Append(t, s, 1, Event("a", 4))
	make(1)
	kept, err := s.Checkpoints(t.Context(), "a", 0, 10)
	if err != nil || len(kept) != 2 || kept[0].Seq != 3 || kept[1].Seq != 4 || !trusted.Signed(&kept[1]) {
		t.Errorf("%+v %v", kept, err)
	}
	if rest, err := s.Checkpoints(t.Context(), "a", 3, 1); err != nil || len(rest) != 1 || rest[0].Seq != 4 {
		t.Errorf("%+v %v", rest, err)
	}
	if r := Verify(t, s, trusted, kept...); r.Chains[0].Signed != 4 {
		t.Errorf("%+v", r)
	}
}

func prune(t *testing.T, e Engine) {
	s := open(t, e)
	sign, trusted := Key(t)
	Append(t, s, 13, append(Events("a", 1, 10), Events("b", 8, 10)...)...)
	if _, err := s.Checkpoint(t.Context(), sign); err != nil {
		t.Fatal(err)
	}
	late := Event("a", 2) // recorded late: it stays until the rows before it in the chain may go
	late.ID = "LATE-2"
	Append(t, s, 1, late)
	removed := func(before int, want int64) {
		t.Helper()
		if n, err := s.Prune(t.Context(), Epoch.Add(time.Duration(before)*time.Second), sign); err != nil || n != want {
			t.Fatalf("%d removed, %v; want %d", n, err, want)
		}
		Verify(t, s, trusted)
	}
	removed(0, 0)
	removed(5, 4)
	if r := Verify(t, s, trusted); r.Chains[0].First != 5 || r.Chains[0].Last != 11 {
		t.Errorf("%+v", r)
	}
	if p, err := s.Pruned(t.Context(), "a"); err != nil || p == nil || p.Seq != 4 || !p.Pruned || !trusted.Signed(p) {
		t.Errorf("%+v %v", p, err)
	}
	removed(1000, 10)
	if r := Verify(t, s, trusted); r.Chains[0].Last != 0 {
		t.Errorf("%+v", r)
	}
	Append(t, s, 1, Event("a", 2000))
	if r := Verify(t, s, trusted); r.Chains[0].First != 12 {
		t.Errorf("%+v", r)
	}
	// A removal by somebody else is not retention, even if there was a checkpoint.
	Append(t, s, 2, Events("a", 2001, 2002)...)
	if _, err := s.Checkpoint(t.Context(), sign); err != nil {
		t.Fatal(err)
	}
	e.Exec("DELETE FROM audit_event WHERE tenant = 'a' AND seq <= 13")
	found(t, s, trusted, nil, 12, "missing")
}

func untouched(t *testing.T, e Engine) {
	s := open(t, e)
	_, trusted := Key(t)
	for n := range 5 { // more than a page of verification, appended with a time limit, as the writer does
		Append(t, s, 500, Events("a", 500*n+1, 500*n+500)...)
	}
	// While rows are added, none is taken for a stray one.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 2501; ctx.Err() == nil && n < 2801; n++ {
			_, _ = s.Append(context.WithoutCancel(ctx), []trail.Event{Event("a", n)})
		}
	})
	for range 3 {
		Verify(t, s, trusted)
	}
	cancel()
	wg.Wait()
}
