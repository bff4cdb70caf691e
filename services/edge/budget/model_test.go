package budget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/budget"
)

// Random calls of every kind leave nothing reserved, and the edge never holds more than
// its limit. A model of the accounts says how much has to be held.
func TestAccountsAddUp(t *testing.T) {
	t.Parallel()
	type call struct {
		r       *budget.Result
		of      budget.Source
		release func()
		took    int
		done    bool
	}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const limit = 64 * mib
				by := rand.New(rand.NewPCG(seed, 1))
				b, held := budget.New(limit), 0
				var live []*call
				end := func(i int) {
					c := live[i]
					if !c.done {
						c.r.Done(c.of, c.took)
					}
					c.release()
					held -= c.took
					live = append(live[:i], live[i+1:]...)
				}
				for range 2000 {
					switch n := by.IntN(10); {
					case n < 3 || len(live) == 0:
						party := fmt.Sprint("party ", by.IntN(3))
						c := &call{r: &budget.Result{}, of: budget.Source{Service: "svc", Method: "tools/call", Name: fmt.Sprint(by.IntN(3))}}
						var ctx context.Context
						ctx, c.release = b.Open(context.Background(), int64(by.IntN(2))*b.MaxRequest())
						budget.From(ctx).Await(c.r, party, uint32(by.IntN(3)), c.of)
						within, giveUp := context.WithTimeout(t.Context(), time.Duration(by.IntN(2))*time.Second)
						err := c.r.Expect(within)
						if giveUp(); err != nil && by.IntN(2) == 0 { // it ends, or its service runs it although it was given up
							c.r.Done(c.of, 0)
							c.release()
							continue
						}
						live = append(live, c)
					case n < 7:
						c := live[by.IntN(len(live))]
						size := []int{100, 200 << 10, mib, 15 * mib}[by.IntN(4)]
						if !c.done && c.r.Take(size) == nil {
							c.took += size
							held += size
						}
					case n < 8: // asked again, for another instance
						if c := live[by.IntN(len(live))]; !c.done {
							_ = c.r.Expect(t.Context())
						}
					case n < 9:
						if c := live[by.IntN(len(live))]; !c.done {
							c.r.Done(c.of, c.took)
							c.done = true
						}
					default:
						end(by.IntN(len(live)))
					}
					if got := b.Held(); got != int64(held) || got > limit || b.Expected() < 0 {
						t.Fatalf("%d bytes are held, the model says %d; %d are expected", got, held, b.Expected())
					}
				}
				for len(live) > 0 {
					end(0)
				}
				if left := b.Reserved(); left != 0 {
					t.Errorf("nobody is here, and %d accounts are not empty", left)
				}
			})
		})
	}
}
