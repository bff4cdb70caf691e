package gateway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// An edge whose clients leave results unread until nine tenths of the room for these are
// taken sheds: large results are refused, small calls go on, and it never holds more than
// its room. What is read makes room again.
func TestEdgeShedsBeforeItsMemoryIsFull(t *testing.T) {
	t.Parallel()
	const room, part = 32 << 20, 256 << 10
	held := budget.New(room)
	w := start(t, func(_ *world, cfg *gateway.Config) { cfg.Budget = held })
	var read []func()
	for i := range room * 9 / 10 / part {
		ctx, release := held.Open(context.Background(), 0)
		a := budget.From(ctx)
		a.For([]string{"one", "two", "three"}[i%3])
		if err := a.Take(part); err != nil {
			t.Fatalf("at %d bytes: %v", held.Held(), err)
		}
		read = append(read, release)
	}
	before := held.Held()
	large := `{"text":"` + strings.Repeat("x", 400<<10) + `"}`
	call := func(arguments string) error {
		ctx, release := w.gateway.Track(t.Context())
		defer release()
		_, err := w.gateway.Do(ctx, toolCall("echo", arguments), nil)
		return err
	}
	for range 20 {
		if err := call(large); !fault.Is(err, fault.Overloaded) {
			t.Fatalf("a large result: %v", err)
		}
		if err := call(`{"text":"x"}`); err != nil {
			t.Fatalf("a small one: %v", err)
		}
		if held.Held() > room {
			t.Fatalf("%d bytes are held, of %d", held.Held(), room)
		}
	}
	t.Logf("with %d%% of the room taken large results are refused and small ones are not; %d bytes of %d were held at most", 100*before/room, before, room)
	for _, release := range read {
		release()
	}
	if err := call(large); err != nil {
		t.Errorf("when all is read: %v", err)
	}
}
