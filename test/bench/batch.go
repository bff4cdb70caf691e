package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// batch is a batch over REST of calls that only take time, as processes, beside the ideal:
// calls x time / slots.
func (b *bench) batch(ctx context.Context) error {
	const calls, instances, slots, length = 1000, 4, 64, 20 * time.Millisecond
	fleet, err := b.fleet(1, slices.Repeat([]part{benchPart("bench", fmt.Sprintf("BUSBAR_BENCH_SLOTS=%d", slots))}, instances)...)
	if err != nil {
		return err
	}
	list := strings.TrimSuffix(strings.Repeat(`{"name":"bench_slow"},`, calls), ",")
	var contenders []*contender
	for _, parallel := range []int{instances * slots, 2 * instances * slots} {
		body := fmt.Appendf(nil, `{"parallel":%d,"calls":[%s]}`, parallel, list)
		t := &load.Target{Address: fleet.address, Request: request(fleet.address, "", nil, "/tools:batch", body), Want: []byte(`"is_error":false`), Times: calls}
		if err := await(ctx, t); err != nil {
			return err
		}
		// One batch at a time.
		c, err := b.enterAs(ctx, fmt.Sprintf("%d calls at once", parallel), fleet, 1, func(int) (load.Caller, error) { return load.Connect(t) })
		if err != nil {
			return err
		}
		contenders = append(contenders, c)
	}
	if err := b.contest(ctx, "batch", contenders...); err != nil {
		return err
	}
	ideal := float64(length/time.Millisecond) * calls / (instances * slots)
	for i, c := range contenders {
		r := row{Group: "batch", What: "batch of 1,000 calls of 20 ms, 4 instances x 64, " + c.name + ", of the ideal"}
		for _, took := range c.cost.P50 {
			r.Of = append(r.Of, ideal/took)
		}
		if i == len(contenders)-1 {
			r.Want = 0.9
		}
		b.add(r)
	}
	return nil
}
