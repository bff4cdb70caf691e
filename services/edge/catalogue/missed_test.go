package catalogue_test

import (
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// A change that is published while the bus of an edge is away is told to its subscribers when the
// bus is back.
func TestUpdatesWhileTheBusIsAway(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	others := bustest.Connect(t, url)
	network := &bustest.Network{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "edge", Logger: bustest.Logger(t), Dialer: network})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	live, err := catalogue.Open(t.Context(), conn, catalogue.Config{Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	announce(t, url, holder("a", []string{""}))
	bustest.Eventually(t, "it is there", func() bool { return live.Now().Lists(catalogue.Resources, "") })
	sub := live.Subscribe(tenant(""), func(string) bool { return true })
	defer sub.Close()

	network.Cut()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
	if err := others.RecordUpdated(t.Context(), []bus.Updated{{Service: "a", URI: "x:1"}}); err != nil {
		t.Fatal(err)
	}
	network.Mend()
	bustest.Eventually(t, "they hear of it", func() bool {
		_, uris := sub.Take()
		return slices.Contains(uris, "x:1")
	})
}
