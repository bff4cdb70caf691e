package budget_test

import (
	"context"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

const mib = 1 << 20

func open(b *budget.Budget, party string, most int64) (*budget.Account, func()) {
	ctx, release := b.Open(context.Background(), most)
	a := budget.Of(ctx)
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
			if err := budget.Of(part).Take(mib); err != nil {
				t.Fatal(err)
			}
			written()
		}
		whole := budget.Of(ctx)
		if whole.Full() || b.Held() != 0 {
			t.Errorf("full: %t, held: %d", whole.Full(), b.Held())
		}
		part, written := budget.Part(ctx)
		defer written()
		refused(t, budget.Of(part).Take(1), fault.ResultTooLarge, fault.Yes)
		if !whole.Full() || !budget.Of(part).Full() {
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
		// What is small has room still, whoever asks.
		var last error
		small := 0
		for range 1000 {
			a, release := open(b, "slow", 0)
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
		if a := budget.Of(ctx); a.Take(1<<40) != nil || a.Full() {
			t.Error("refused")
		}
	})
}
