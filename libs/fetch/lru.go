package fetch

import (
	"container/list"
	"sync"
)

// LRU is a map of bounded total cost that drops the least recently used values.
type LRU[K comparable, V any] struct {
	mu    sync.Mutex
	most  int
	cost  int
	order *list.List // of *item; most recent first
	items map[K]*list.Element
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

// NewLRU returns a map whose values cost at most that much in total.
func NewLRU[K comparable, V any](most int) *LRU[K, V] {
	return &LRU[K, V]{most: most, order: list.New(), items: map[K]*list.Element{}}
}

// Get returns the value of a key.
func (l *LRU[K, V]) Get(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.getLocked(key)
}

func (l *LRU[K, V]) getLocked(key K) (value V, ok bool) {
	if at := l.items[key]; at != nil {
		l.order.MoveToFront(at)
		return at.Value.(*item[K, V]).value, true
	}
	return value, false
}

// GetOr returns the value of a key, or stores the one that fresh returns.
func (l *LRU[K, V]) GetOr(key K, fresh func() V, cost int) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, ok := l.getLocked(key)
	if !ok {
		value = fresh()
		l.putLocked(key, value, cost)
	}
	return value
}

// Put stores a value, replacing the old one.
func (l *LRU[K, V]) Put(key K, value V, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.putLocked(key, value, cost)
}

func (l *LRU[K, V]) putLocked(key K, value V, cost int) {
	l.removeLocked(key)
	l.items[key] = l.order.PushFront(&item[K, V]{key, value, cost})
	for l.cost += cost; l.cost > l.most; {
		l.removeLocked(l.order.Back().Value.(*item[K, V]).key)
	}
}

// Remove removes a value.
func (l *LRU[K, V]) Remove(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(key)
}

func (l *LRU[K, V]) removeLocked(key K) {
	if at := l.items[key]; at != nil {
		l.order.Remove(at)
		l.cost -= at.Value.(*item[K, V]).cost
		delete(l.items, key)
	}
}
