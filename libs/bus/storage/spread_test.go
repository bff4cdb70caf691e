package storage_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Code(m.Run())) }

// info is a store with a leader and other servers. A dot after a name means that the server is not
// current, a star that it is away.
func info(name, leader string, others ...string) *jetstream.StreamInfo {
	c := &jetstream.ClusterInfo{Name: "c", Leader: leader}
	for _, o := range others {
		peer := &jetstream.PeerInfo{Name: o, Current: true}
		switch last := len(o) - 1; o[last] {
		case '.':
			peer.Name, peer.Current = o[:last], false
		case '*':
			peer.Name, peer.Offline = o[:last], true
		}
		c.Replicas = append(c.Replicas, peer)
	}
	return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: name}, Cluster: c}
}

func TestStep(t *testing.T) {
	t.Parallel()
	type stores = []*jetstream.StreamInfo
	for name, c := range map[string]struct {
		all        stores
		stream, to string
	}{
		"a server leads all": {stores{info("A", "a", "b", "c"), info("B", "a", "b", "c"), info("C", "a", "b", "c")}, "A", "b"},
		"two of three":       {stores{info("A", "a", "b", "c"), info("B", "a", "b", "c"), info("C", "b", "a", "c")}, "A", "c"},
		"as even as can be":  {stores{info("A", "a", "b", "c"), info("B", "b", "a", "c"), info("C", "a", "b"), info("D", "c", "a")}, "", ""},
		"one that is behind": {stores{info("A", "a", "b.", "c"), info("B", "a", "b.", "c")}, "A", "c"},
		"all are behind":     {stores{info("A", "a", "b.", "c."), info("B", "a", "b.", "c.")}, "", ""},
		"a server is away":   {stores{info("A", "a", "b", "c*"), info("B", "a", "b", "c")}, "", ""},
		"no leader":          {stores{info("A", "", "b", "c"), info("B", "a", "b", "c"), info("C", "a", "b", "c")}, "", ""},
		"no answer":          {stores{nil, info("B", "a", "b", "c"), info("C", "a", "b", "c")}, "", ""},
		"one server":         {stores{{}, {}}, "", ""},
		"one replica each":   {stores{info("A", "a"), info("B", "a"), info("C", "a")}, "", ""},
		"five servers":       {stores{info("A", "a", "b", "c"), info("B", "a", "d", "e"), info("C", "b", "a", "c"), info("D", "a", "b", "d"), info("E", "d", "a", "e")}, "A", "c"},
	} {
		if stream, to := storage.Step(c.all); stream != c.stream || to != c.to {
			t.Errorf("%s: %q to %q, want %q to %q", name, stream, to, c.stream, c.to)
		}
	}
}

// TestLeadersAreSpread: one server leads everything, as after two others were away. However many
// edges see that, they take only one step per interval. Two edges move one leader after the other
// until all servers lead equally many, and then stop.
func TestLeadersAreSpread(t *testing.T) {
	cluster := bustest.NewCluster(t, 3)
	var edges []*storage.Storage
	var conns []*bus.Conn
	for range 8 {
		conn := bustest.Join(t, cluster.URL())
		s, err := storage.Ensure(t.Context(), conn, 3)
		if err != nil {
			t.Fatal(err)
		}
		edges, conns = append(edges, s), append(conns, conn)
	}
	leads := func() map[string]int {
		all := map[string]int{}
		for _, s := range storage.Check(t.Context(), conns[0], 3) {
			all[s.Leader]++
		}
		return all
	}
	bustest.Eventually(t, "n0 leads everything", func() bool {
		for name := range conns[0].JetStream().StreamNames(t.Context()).Name() {
			_, _ = conns[0].NATS().RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN."+name, []byte(`{"placement":{"preferred":"n0"}}`))
		}
		return len(leads()) == 1
	})
	even := func(all map[string]int) bool {
		return len(all) == 3 && all[""] == 0 && max(all["n0"], all["n1"], all["n2"])-min(all["n0"], all["n1"], all["n2"]) <= 1
	}
	lap := func(edges ...*storage.Storage) {
		var all sync.WaitGroup
		for _, s := range edges {
			all.Go(func() { s.LookAfter(t.Context()) })
		}
		all.Wait()
	}
	// The first round may take one step, the others none for an hour.
	storage.SpreadEvery(t, time.Hour)
	for range 3 {
		lap(edges...)
	}
	bustest.Eventually(t, "one store has moved, and no other one", func() bool {
		all := leads()
		return len(all) == 2 && all["n1"]+all["n2"] == 1
	})
	storage.SpreadEvery(t, 0)
	laps := 0
	bustest.Eventually(t, "each server leads a third", func() bool {
		laps++
		lap(edges[:2]...)
		return even(leads())
	})
	if laps < 4 {
		t.Errorf("after %d laps: two edges moved more than one store each at a time", laps)
	}
	before := leads()
	for range 3 {
		lap(edges...)
	}
	if after := leads(); !even(after) {
		t.Errorf("it goes on moving: %v, then %v", before, after)
	}
}
