package budget_test

import (
	"context"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

const mib = 1 << 20

func open(b *budget.Budget, party string, most int64) (*budget.Meter, func()) {
	ctx, release := b.Open(context.Background(), most)
	a := budget.From(ctx)
	a.For(party)
	return a, release
}

func TestBudget(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, err error, reason fault.Reason, executed fault.Executed) {
		t.Helper()
		if f := fault.From(err); err == nil || f.Reason != reason || f.Executed != executed {
			t.Errorf("%v, want %s, executed %s", err, reason, executed)
		}
	}
	t.Run("C2 a request takes no more in all than it may, and what has not begun need not", func(t *testing.T) {
		t.Parallel()
		b := budget.New(100 * mib)
		ctx, release := b.Open(context.Background(), 10*mib)
		defer release()
		for range 10 {
			part, written := budget.Part(ctx)
			if err := budget.From(part).Take(mib); err != nil {
				t.Fatal(err)
			}
			written()
		}
		whole := budget.From(ctx)
		if whole.Full() || b.Held() != 0 {
			t.Errorf("full: %t, held: %d", whole.Full(), b.Held())
		}
		part, written := budget.Part(ctx)
		defer written()
		refused(t, budget.From(part).Take(1), fault.ResultTooLarge, fault.Yes)
		if !whole.Full() || !budget.From(part).Full() {
			t.Error("it is not full")
		}
		refused(t, whole.NotBegun(), fault.ResultTooLarge, fault.No)
	})
	t.Run("D6 the edge holds no more than it may, and a party half of it", func(t *testing.T) {
		t.Parallel()
		b := budget.New(64 * mib)
		slow, forget := open(b, "slow", 0)
		for range 32 {
			if err := slow.Take(mib); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, slow.Take(mib), fault.Overloaded, fault.Yes)
		again, release := open(b, "slow", 0)
		defer release()
		refused(t, again.Take(mib), fault.Overloaded, fault.Yes)
		other, release := open(b, "other", 0)
		defer release()
		for range 16 {
			if err := other.Take(mib); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, other.Take(mib), fault.Overloaded, fault.Yes)
		// A small result still has room, if its party has not had half.
		refused(t, again.Take(1), fault.Overloaded, fault.Yes)
		var last error
		small := 0
		for range 1000 {
			a, release := open(b, "third", 0)
			defer release()
			if last = a.Take(100 << 10); last != nil {
				break
			}
			small++
		}
		refused(t, last, fault.Overloaded, fault.Yes)
		if small < 100 || b.Held() > 64*mib {
			t.Errorf("%d small ones had room, and %d bytes are held", small, b.Held())
		}
		forget()
		forget()
		if err := again.Take(mib); err != nil {
			t.Errorf("nothing is given back: %v", err)
		}
	})
	t.Run("F5 small parts count for their party, and leave room for others", func(t *testing.T) {
		t.Parallel()
		b := budget.New(0)
		var last error
		for range 16 {
			ctx, release := b.Open(context.Background(), b.MaxRequest())
			defer release()
			for range 128 {
				part, written := budget.Part(ctx)
				defer written()
				a := budget.From(part)
				a.For("slow")
				if last = a.Take(256 << 10); last != nil {
					break
				}
			}
		}
		refused(t, last, fault.Overloaded, fault.Yes)
		if b.Held() != budget.DefaultLimit/2 {
			t.Errorf("one party holds %d MiB of %d", b.Held()>>20, budget.DefaultLimit>>20)
		}
		other, release := open(b, "other", 0)
		defer release()
		if err := other.Take(100); err != nil {
			t.Errorf("another party's 100 bytes: %v", err)
		}
	})
	t.Run("F5 what is held moves to the party that is named later", func(t *testing.T) {
		t.Parallel()
		b := budget.New(4 * mib)
		a, release := open(b, "one", 0)
		if err := a.Take(2 * mib); err != nil {
			t.Fatal(err)
		}
		a.For("two")
		one, forget := open(b, "one", 0)
		defer forget()
		two, forget := open(b, "two", 0)
		defer forget()
		refused(t, two.Take(1), fault.Overloaded, fault.Yes)
		if err := one.Take(1); err != nil {
			t.Error(err)
		}
		release()
		a.For("one")
		if err := two.Take(2 * mib); err != nil {
			t.Errorf("nothing is given back: %v", err)
		}
	})
	t.Run("what is released holds nothing, and takes nothing", func(t *testing.T) {
		t.Parallel()
		b := budget.New(0)
		a, release := open(b, "a", 0)
		if err := a.Take(mib); err != nil || b.Held() != mib {
			t.Errorf("%v, %d", err, b.Held())
		}
		release()
		if refused(t, a.Take(1), fault.Cancelled, fault.Unknown); b.Held() != 0 {
			t.Errorf("%d bytes are held", b.Held())
		}
	})
	t.Run("without an account anything goes", func(t *testing.T) {
		t.Parallel()
		ctx, release := budget.Part(context.Background())
		release()
		if a := budget.From(ctx); a.Take(1<<40) != nil || a.Full() {
			t.Error("refused")
		}
	})
}
