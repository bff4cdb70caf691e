package gateway_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Edges whose clocks differ accept state and rights that other edges gave a time: for as long as
// that time, and not much longer.
func TestM18ClocksOfEdgesDiffer(t *testing.T) {
	t.Parallel()
	const bit = 90 * time.Second
	for name, c := range map[string]struct {
		ahead time.Duration // of the edge that opens, at the end of the time
		opens bool
	}{"in time": {0, true}, "a bit ahead": {bit, true}, "long after": {2 * bit, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now().Truncate(store.KeyLife).Add(store.KeyLife / 2)
			giving, taking := sealer(t, 1), sealer(t, 1)
			giving.Now = func() time.Time { return now }

			t.Run("state", func(t *testing.T) {
				taking.Now = func() time.Time { return now.Add(time.Hour + c.ahead) }
				var other *gateway.Gateway
				w := start(t, func(_ *world, cfg *gateway.Config) {
					cfg.Sealer = taking
					other = gateway.New(*cfg)
					cfg.Sealer = giving
				})
				state := bytes.Clone(w.works(t, remembering("{}", nil)).InputRequired.GetRequestState())
				_, err := other.Do(context.Background(), remembering("{}", state), nil)
				if c.opens && err != nil || !c.opens && !fault.Is(err, fault.InvalidParams) {
					t.Errorf("%v after it was given an hour: %v", c.ahead, err)
				}
			})
			t.Run("delegation", func(t *testing.T) {
				target := catalogue.Target{Service: "svc", Tool: &catalogue.Tool{CallsTools: true}}
				sealed, err := gateway.Delegate(t.Context(), giving, target, now.Add(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				taking.Now = func() time.Time { return now.Add(time.Minute + c.ahead) }
				err = gateway.Accept(t.Context(), taking, sealed)
				if c.opens && err != nil || !c.opens && !fault.Is(err, fault.Forbidden) {
					t.Errorf("%v after it was given a minute: %v", c.ahead, err)
				}
			})
			t.Run("held call", func(t *testing.T) {
				// The clock is the machine's own; half a minute is for a slow one.
				held := &store.HeldCall{Expires: time.Now().Add(30*time.Second - c.ahead)}
				if c.opens == fault.Is(gateway.Over(held), fault.UnknownApproval) {
					t.Errorf("%v after its time: %v", c.ahead, gateway.Over(held))
				}
			})
		})
	}
}
