package storage

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// Leaders pile up: a server that was away leads nothing when it is back, because the other leaders
// stay. The next server that dies may lead nearly all stores, and none of those accepts writes
// until its servers have voted. So edges spread the leaders again, one store at a time.

// spreadEvery is the time between two steps, for all edges of a bus together.
var spreadEvery = 8 * time.Second

// spreadKey is the key in bucket keys that an edge writes before it takes a step.
const spreadKey = "leaders.step"

// turns decides which edge takes the next step. It belongs to Keep's goroutine.
type turns struct {
	revision uint64
	since    time.Time // when that revision was seen first
}

// mine reports whether this edge may take a step now: as far as it has seen, no edge has taken one
// for spreadEvery. If several edges ask at once, the fastest wins. No clocks are compared.
func (t *turns) mine(ctx context.Context, bucket *bus.Bucket) bool {
	_, revision, err := bucket.Look(ctx, spreadKey)
	if err != nil {
		return false
	}
	if revision != t.revision {
		t.revision, t.since = revision, time.Now()
	}
	if revision != 0 && time.Since(t.since) < spreadEvery {
		return false
	}
	now, err := bucket.Replace(ctx, spreadKey, nil, revision)
	if err != nil || now == 0 {
		return false
	}
	t.revision, t.since = now, time.Now()
	return true
}

// spread moves the leader of one store to another server, where one leads at least two stores more
// than the other. While a server is away, or a store has no leader, nothing is moved.
func (s *Storage) spread(ctx context.Context, all []*jetstream.StreamInfo) {
	stream, to := step(all)
	if stream == "" || !s.turns.mine(ctx, s.conn.Bucket(bus.KeysBucket)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	body, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": to}})
	if err == nil {
		_, err = s.conn.NATS().RequestWithContext(ctx, subject.StepDown(stream), body)
	}
	if err != nil {
		s.conn.Log().Warn("the leader of a part of the bus's storage cannot be moved", "stream", stream, "to", to, "error", err)
		return
	}
	s.conn.Log().Info("the leader of a part of the bus's storage moves, so that no server leads most", "stream", stream, "to", to)
}

// step chooses a store and the server that should lead it: the first of the steps with the greatest
// effect. It returns "" if no step is needed, or if a store or server has a problem.
func step(all []*jetstream.StreamInfo) (stream, to string) {
	leads := map[string]int{}
	for _, info := range all {
		if info == nil || info.Cluster == nil || info.Cluster.Leader == "" {
			return "", ""
		}
		for _, peer := range info.Cluster.Replicas {
			if gone(peer) {
				return "", ""
			}
		}
		leads[info.Cluster.Leader]++
	}
	best := 1
	for _, info := range all {
		for _, peer := range info.Cluster.Replicas {
			if gain := leads[info.Cluster.Leader] - leads[peer.Name]; peer.Current && gain > best {
				stream, to, best = info.Config.Name, peer.Name, gain
			}
		}
	}
	return stream, to
}
