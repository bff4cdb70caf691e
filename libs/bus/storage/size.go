package storage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Size is how full a bucket or stream was when Keep last looked, and where it is kept.
type Size struct {
	// Name is "bucket sessions" or "stream AUDIT".
	Name         string
	Bytes, Limit int64
	Messages     uint64
	// Servers is the number of servers that keep it; Away of them do not answer.
	Servers, Away int
}

// Sizes returns the sizes of the buckets and streams that have answered, sorted.
func (s *Storage) Sizes() []Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.sizes), func(a, b Size) int { return cmp.Compare(a.Name, b.Name) })
}

func (s *Storage) noteSize(one store, info *jetstream.StreamInfo) {
	size := Size{Name: one.name, Bytes: int64(info.State.Bytes), Limit: info.Config.MaxBytes, Messages: info.State.Msgs, Servers: info.Config.Replicas}
	if info.Cluster != nil {
		for _, peer := range info.Cluster.Replicas {
			if gone(peer) {
				size.Away++
			}
		}
	}
	s.mu.Lock()
	s.sizes[one.name] = size
	s.mu.Unlock()
}

// gone reports whether a server that keeps a store is away.
func gone(peer *jetstream.PeerInfo) bool { return peer.Offline || peer.Active > silent }
