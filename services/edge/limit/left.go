package limit

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Left is what is left of one limit, over all edges.
type Left struct {
	// Of is what the limit is of: principal, tenant or tool.
	Of string `json:"of"`
	// Limit is the limit: a rate, or a number of calls at once.
	Limit string `json:"limit"`
	// Used and Left are calls: of those that may come at once, or be in flight.
	Used int `json:"used"`
	Left int `json:"left"`
	// Reset is how long until all is left, if no more is used; 0 for calls at once.
	Reset time.Duration `json:"-"`
	// ResetMS is Reset in milliseconds.
	ResetMS int64 `json:"resetMs,omitzero"`
}

// Left returns what is left of the limits of a principal and of its tenant. It asks
// the other edges, 0.1 s each at most; what one that does not answer has counts as
// used.
func (l *Limiter) Left(ctx context.Context, p gateway.Principal) []Left {
	a := l.rules.Limits(gateway.View{Call: &gateway.Call{}, Principal: p})
	all := []Left{}
	for _, one := range a.parties(p) {
		if r := one.Rate; r != (Rate{}) {
			k := one.key
			k.limit.Rate = r
			left := min(r.burst(), l.look(ctx, k))
			back := time.Duration((r.burst() - left) / r.perNano())
			used := int(math.Ceil(r.burst() - left - 1e-6))
			all = append(all, Left{k.scope.String(), r.String(), used, int(math.Floor(r.burst())) - used, back, back.Milliseconds()})
		}
		if n := one.Concurrent; n > 0 {
			k := one.key
			k.limit.Concurrent = n
			used := int(l.look(ctx, k))
			all = append(all, Left{Of: k.scope.String(), Limit: strconv.Itoa(n) + " at once", Used: used, Left: max(0, n-used)})
		}
	}
	return all
}

// look adds up what all edges have of a key.
func (l *Limiter) look(ctx context.Context, k key) (sum float64) {
	r := k.request(l.members.self, 0)
	r.Look = true
	if own := l.Lend(r); own != nil {
		sum = own.Left
	}
	others := l.members.holdings.Load().view().others(l.members.self, k.hash(), math.MaxInt32)
	for _, edge := range others {
		bounded, cancel := context.WithTimeout(ctx, askTime)
		if got := l.ask(bounded, edge, r); got != nil {
			sum += got.Left
		}
		cancel()
	}
	return sum
}
