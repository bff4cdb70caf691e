package limit

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// shards is the number of parts with a lock each.
	shards = 64
	// maxKeys bounds the rates that one edge counts. Beyond it, the counter that is used least
	// among a few is forgotten.
	//limit:share.count rates of principals, tenants and tools that an edge counts (about 90 MiB) | the least used are forgotten
	maxKeys = 1 << 18
	// looked is how many keys are examined when a new one is added; those that are as good as
	// unused are forgotten.
	looked = 4
)

// keys are the counters of an edge. A counter in use is not forgotten.
type keys[T counted] struct {
	make     func(key) T
	capacity int // of a shard
	seed     maphash.Seed
	shards   [shards]shard[T]
}

type shard[T counted] struct {
	mu   sync.Mutex
	keys map[key]T
	_    [48]byte // padding to a cache line each
}

func newKeys[T counted](make_ func(key) T) *keys[T] {
	ks := &keys[T]{make: make_, capacity: maxKeys / shards, seed: maphash.MakeSeed()}
	for i := range ks.shards {
		ks.shards[i].keys = map[key]T{}
	}
	return ks
}

// get returns the counter of a key with its lock held.
func (ks *keys[T]) get(k key, st *holdings, now time.Duration) T {
	s := &ks.shards[maphash.Comparable(ks.seed, k)%shards]
	for {
		one := ks.in(s, k, st, now)
		base := one.base()
		base.mu.Lock()
		if !base.gone {
			return one
		}
		base.mu.Unlock()
	}
}

func (ks *keys[T]) in(s *shard[T], k key, st *holdings, now time.Duration) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, there := s.keys[k]
	if !there {
		s.tidy(ks.capacity, st, now)
		one = ks.make(k)
		s.keys[k] = one
	}
	return one
}

// tidy makes room for one more key.
func (s *shard[T]) tidy(capacity int, st *holdings, now time.Duration) {
	least, fullest := key{}, -1.0
	i := 0
	for k, one := range s.keys {
		if i++; i > looked {
			break
		}
		if part := s.drop(k, one, st, now, whole); part < whole && part > fullest {
			least, fullest = k, part
		}
	}
	if one, there := s.keys[least]; there && len(s.keys) >= capacity {
		s.drop(least, one, st, now, 0)
	}
}

// drop forgets a key if at least that part of it is unused, and returns the unused part.
func (s *shard[T]) drop(k key, one T, st *holdings, now time.Duration, least float64) float64 {
	base := one.base()
	base.mu.Lock()
	defer base.mu.Unlock()
	if base.others.asking != nil {
		return -1
	}
	part := one.unused(st, now)
	if part >= least {
		base.gone = true
		delete(s.keys, k)
	}
	return part
}

// len is how many keys there are.
func (ks *keys[T]) len() (n int) {
	for i := range ks.shards {
		s := &ks.shards[i]
		s.mu.Lock()
		n += len(s.keys)
		s.mu.Unlock()
	}
	return n
}
