package upstream

import (
	"container/list"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// cacheKey holds the identity: what one token saw is never shown to another.
type cacheKey struct {
	identity identity
	url      string
	accept   string
}

// entry is a response kept to be asked for conditionally. It is never used
// without asking: GitHub does not charge for "not modified".
type entry struct {
	header http.Header
	body   []byte
}

var keptHeaders = []string{"Content-Type", "Link", "Etag", "Last-Modified"}

// newEntry returns nil for what cannot or must not be kept. JSON that is broken
// is not: its tag would bring it back forever.
func newEntry(a *answer) *entry {
	e := &entry{header: http.Header{}, body: a.body}
	for _, name := range keptHeaders {
		if v := a.header.Get(name); v != "" {
			e.header.Set(name, v)
		}
	}
	switch {
	case e.header.Get("Etag") == "" && e.header.Get("Last-Modified") == "",
		len(a.body) > limit.CacheEntry,
		strings.Contains(a.header.Get("Cache-Control"), "no-store"),
		strings.Contains(a.header.Get("Content-Type"), "json") && !json.Valid(a.body):
		return nil
	}
	return e
}

func (e *entry) cost(key cacheKey) int { return len(e.body) + len(key.url) + 1024 }

// ask makes a request conditional; a nil entry has nothing to ask.
func (e *entry) ask(h http.Header) {
	if e == nil {
		return
	}
	if tag := e.header.Get("Etag"); tag != "" {
		h.Set("If-None-Match", tag)
	}
	if at := e.header.Get("Last-Modified"); at != "" {
		h.Set("If-Modified-Since", at)
	}
}

// answer is the response kept, with what "not modified" says is current.
func (e *entry) answer(fresh http.Header) *answer {
	h := fresh.Clone()
	for name, v := range e.header {
		if h.Get(name) == "" || name == "Content-Type" {
			h[name] = v
		}
	}
	return &answer{status: http.StatusOK, header: h, body: e.body}
}

// lru is a map of bounded cost that forgets what was used longest ago.
type lru[K comparable, V any] struct {
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

func newLRU[K comparable, V any](most int) *lru[K, V] {
	return &lru[K, V]{most: most, order: list.New(), items: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.getLocked(key)
}

func (l *lru[K, V]) getLocked(key K) (value V, ok bool) {
	if at := l.items[key]; at != nil {
		l.order.MoveToFront(at)
		return at.Value.(*item[K, V]).value, true
	}
	return value, false
}

// getOr returns what is there, or puts what fresh makes.
func (l *lru[K, V]) getOr(key K, fresh func() V, cost int) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, ok := l.getLocked(key)
	if !ok {
		value = fresh()
		l.putLocked(key, value, cost)
	}
	return value
}

func (l *lru[K, V]) put(key K, value V, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.putLocked(key, value, cost)
}

func (l *lru[K, V]) putLocked(key K, value V, cost int) {
	l.removeLocked(key)
	l.items[key] = l.order.PushFront(&item[K, V]{key, value, cost})
	for l.cost += cost; l.cost > l.most; {
		l.removeLocked(l.order.Back().Value.(*item[K, V]).key)
	}
}

func (l *lru[K, V]) remove(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(key)
}

func (l *lru[K, V]) removeLocked(key K) {
	if at := l.items[key]; at != nil {
		l.order.Remove(at)
		l.cost -= at.Value.(*item[K, V]).cost
		delete(l.items, key)
	}
}
