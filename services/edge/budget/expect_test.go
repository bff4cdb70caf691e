package budget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

var list = budget.Source{Service: "svc", Method: "tools/call", Name: "list"}

// had makes a call of a source with a result of size bytes, which is read at once.
func had(b *budget.Budget, party string, of budget.Source, size int) error {
	var r budget.Result
	a, release := open(b, party, 0)
	defer release()
	a.Await(&r, party, 0, of)
	err := r.Expect(context.Background())
	if err != nil {
		return err
	}
	if err = r.Take(size); err != nil {
		size = 0
	}
	r.Done(of, size)
	return err
}

// expects is how many bytes an idle edge expects from the next call of a source.
func expects(t *testing.T, b *budget.Budget, party string, of budget.Source) int64 {
	t.Helper()
	var r budget.Result
	a, release := open(b, party, 0)
	defer release()
	before := b.Expected()
	defer r.Done(of, 0)
	large := a.Await(&r, party, 0, of)
	for range 2 { // asked again, for another instance
		if err := r.Expect(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	n := b.Expected() - before
	if large != (n > 0) {
		t.Errorf("%d bytes are expected, large: %t", n, large)
	}
	return n
}

// The recent results of a tool say what to expect of the next one.
func TestExpected(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	for name, c := range map[string]struct {
		had  []int // sizes of results, the oldest first; a negative size is another caller's
		want int64
	}{
		"small results":                    {[]int{256 * kib, 10}, 0},
		"a new result counts half":         {[]int{8 * mib, 4 * mib}, 6 * mib},
		"no result after a large one":      {[]int{8 * mib, 0 * mib}, 8 * mib},
		"own small ones beside large ones": {[]int{-16 * mib, 100, -16 * mib, -16 * mib}, 0},
		"more than a caller may hold":      {[]int{64 * mib, 64 * mib}, 32 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := budget.New(64 * mib)
			for _, size := range c.had {
				party := "caller"
				if size < 0 {
					party, size = "other", -size
				}
				if err := had(b, party, list, size); err != nil && !fault.Is(err, fault.ResultTooLarge) {
					t.Fatal(err)
				}
			}
			if got := expects(t, b, "caller", list); got != c.want {
				t.Errorf("%d bytes are expected, want %d", got, c.want)
			}
			if b.Expected() != 0 || b.Held() != 0 {
				t.Errorf("%d bytes are expected and %d held by nobody", b.Expected(), b.Held())
			}
		})
	}
}

func TestExpect(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, err error, reason fault.Reason) {
		t.Helper()
		if f := fault.From(err); err == nil || f.Reason != reason || f.Executed != fault.No {
			t.Fatalf("%v, want %s, executed no", err, reason)
		}
	}
	// begin begins calls of a source, each with its own account, until one is refused.
	begin := func(t *testing.T, b *budget.Budget, party string, depth uint32, of budget.Source) (all []*budget.Result, last error) {
		t.Helper()
		for range 1000 {
			r := &budget.Result{}
			a, release := open(b, party, 0)
			t.Cleanup(release)
			a.Await(r, party, depth, of)
			if last = r.Expect(context.Background()); last != nil {
				return all, last
			}
			all = append(all, r)
		}
		t.Fatal("none is refused")
		return nil, nil
	}
	known := func(t *testing.T, size int) *budget.Budget {
		t.Helper()
		b := budget.New(64 * mib)
		if err := had(b, "first", list, size); err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Run("a party has room for half, all for three quarters, and each depth by itself", func(t *testing.T) {
		t.Parallel()
		b := known(t, 4*mib)
		for _, c := range []struct {
			party string
			depth uint32
			want  int
		}{{"one", 0, 8}, {"two", 0, 4}, {"three", 0, 0}, {"one", 1, 8}, {"two", 1, 4}} {
			all, err := begin(t, b, c.party, c.depth, list)
			if refused(t, err, fault.Overloaded); len(all) != c.want {
				t.Errorf("%d calls of %s at depth %d begin, want %d", len(all), c.party, c.depth, c.want)
			}
			if after := fault.From(err).RetryAfter; after <= 0 {
				t.Errorf("to be tried again after %v", after)
			}
		}
	})
	t.Run("what has arrived is not expected any more, and counts until it is read", func(t *testing.T) {
		t.Parallel()
		b := known(t, 4*mib)
		all, _ := begin(t, b, "one", 0, list)
		for _, r := range all {
			for range 4 {
				if err := r.Take(mib); err != nil {
					t.Fatal(err)
				}
			}
			r.Done(list, 4*mib)
		}
		if b.Expected() != 0 || b.Held() != 32*mib {
			t.Errorf("%d bytes are expected, %d held", b.Expected(), b.Held())
		}
		more, err := begin(t, b, "one", 0, list)
		if refused(t, err, fault.Overloaded); len(more) != 0 {
			t.Errorf("%d more begin", len(more))
		}
	})
	t.Run("a call that ends without a result gives its room back", func(t *testing.T) {
		t.Parallel()
		b := known(t, 4*mib)
		for range 3 {
			all, _ := begin(t, b, "one", 0, list)
			if len(all) != 8 {
				t.Fatalf("%d begin", len(all))
			}
			for _, r := range all {
				r.Done(list, 0)
			}
		}
		if b.Expected() != 0 {
			t.Errorf("%d bytes are expected", b.Expected())
		}
	})
	t.Run("what is expected refuses no result", func(t *testing.T) {
		t.Parallel()
		b := known(t, 4*mib)
		begin(t, b, "one", 0, list)
		other := list
		other.Name = "unknown"
		for _, size := range []int{100, 4 * mib} {
			if err := had(b, "one", other, size); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
	t.Run("calls of other tools, and small ones of a caller, need no room", func(t *testing.T) {
		t.Parallel()
		b := known(t, 4*mib)
		if err := had(b, "small", list, 100); err != nil {
			t.Fatal(err)
		}
		begin(t, b, "one", 0, list)
		begin(t, b, "two", 0, list)
		for range 100 {
			if err := had(b, "small", list, 100); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a request takes no more than it may, and one call always may begin", func(t *testing.T) {
		t.Parallel()
		b := known(t, 12*mib)
		ctx, release := b.Open(context.Background(), 10*mib)
		defer release()
		call := func() (*budget.Result, error) {
			part, written := budget.Part(ctx)
			t.Cleanup(written)
			r := &budget.Result{}
			budget.From(part).Await(r, "one", 0, list)
			return r, r.Expect(context.Background())
		}
		first, err := call()
		if err != nil {
			t.Fatal(err)
		}
		_, err = call()
		refused(t, err, fault.ResultTooLarge)
		first.Done(list, 0)
		if _, err = call(); err != nil {
			t.Errorf("when the first had no result: %v", err)
		}
	})
	t.Run("a result that never has room is too large, not to be tried again, and forgotten", func(t *testing.T) {
		t.Parallel()
		b := budget.New(8 * mib)
		for range 3 {
			if err := had(b, "one", list, 5*mib); !fault.Is(err, fault.ResultTooLarge) || fault.From(err).Executed != fault.Yes {
				t.Fatalf("%v, want too large, executed yes", err)
			}
		}
		for range 6 {
			if err := had(b, "one", list, 100); err != nil {
				t.Fatal(err)
			}
		}
		if n := expects(t, b, "one", list); n != 0 {
			t.Errorf("%d bytes are expected after small ones", n)
		}
	})
	t.Run("a call waits a moment for room", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := known(t, 4*mib)
			all, _ := begin(t, b, "one", 0, list)
			for _, end := range []func(){
				func() { all[0].Done(list, 0) }, // without a result
				func() { // with a result, which is read
					a, read := open(b, "one", 0)
					r := &budget.Result{}
					a.Await(r, "one", 0, budget.Source{})
					all[1].Done(list, 0)
					if err := r.Take(4 * mib); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					read()
				},
			} {
				ended := make(chan error, 1)
				r := &budget.Result{}
				a, release := open(b, "one", 0)
				defer release()
				a.Await(r, "one", 0, list)
				go func() { ended <- r.Expect(t.Context()) }()
				synctest.Wait()
				end()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			a, release := open(b, "one", 0)
			defer release()
			r := &budget.Result{}
			a.Await(r, "one", 0, list)
			refused(t, r.Expect(ctx), fault.Overloaded)
			if took := time.Since(begun); took != time.Millisecond {
				t.Errorf("one that is given up waits %v", took)
			}
			// One caller leaves half of the room to wait to others.
			ended, others := make(chan error, 100), make(chan error, 100)
			wait := func(party string, ended chan<- error) {
				for range cap(ended) {
					go func() {
						r := &budget.Result{}
						a, release := open(b, party, 0)
						defer release()
						a.Await(r, party, 0, list)
						ended <- r.Expect(t.Context())
					}()
				}
				synctest.Wait()
			}
			rest, _ := begin(t, b, "two", 0, list)
			if len(rest) != 4 {
				t.Fatalf("%d calls of another caller begin, want 4", len(rest))
			}
			for _, c := range []struct {
				party string
				ended chan error
			}{{"one", ended}, {"two", others}} {
				begun = time.Now()
				if wait(c.party, c.ended); len(c.ended) != 100-32 {
					t.Errorf("%d calls of %s are refused at once, want all but 32", len(c.ended), c.party)
				}
			}
			rest[0].Done(list, 0)
			one := 0
			for range 100 {
				refused(t, <-ended, fault.Overloaded)
				if err := <-others; err == nil {
					one++
				} else {
					refused(t, err, fault.Overloaded)
				}
			}
			if took := time.Since(begun); one != 1 || took > time.Second {
				t.Errorf("room for one call has %d, and the others wait %v", one, took)
			}
		})
	})
	t.Run("without an account anything goes", func(t *testing.T) {
		t.Parallel()
		var r budget.Result
		if budget.From(context.Background()).Await(&r, "one", 0, list) || r.Expect(context.Background()) != nil {
			t.Fatal("refused")
		}
		if err := r.Take(1 << 40); err != nil {
			t.Error(err)
		}
		r.Done(list, 1<<40)
	})
}

// A call with a small result allocates nothing, even if other tools have large ones.
func TestSmallResultsCostNothing(t *testing.T) {
	b := budget.New(0)
	if err := had(b, "one", list, mib); err != nil {
		t.Fatal(err)
	}
	a, release := open(b, "one", 0)
	defer release()
	small := list
	small.Name = "small"
	r := &budget.Result{}
	if n := testing.AllocsPerRun(100, func() {
		if a.Await(r, "one", 0, small) || r.Take(100) != nil {
			t.Error("refused")
		}
		r.Done(small, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSmallResult(b *testing.B) {
	for name, large := range map[string]bool{"no tool has large results": false, "another tool has": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			room := budget.New(0)
			if large {
				if err := had(room, "one", list, mib); err != nil {
					b.Fatal(err)
				}
			}
			small, r := budget.Source{Service: "svc", Method: "tools/call", Name: "small"}, &budget.Result{}
			for b.Loop() {
				a, release := open(room, "one", 0)
				a.Await(r, "one", 0, small)
				_ = r.Take(100)
				r.Done(small, 100)
				release()
			}
		})
	}
	b.Run("counted only when it arrives", func(b *testing.B) {
		b.ReportAllocs()
		room := budget.New(0)
		for b.Loop() {
			a, release := open(room, "one", 0)
			a.For("one")
			_ = a.Take(100)
			release()
		}
	})
}
