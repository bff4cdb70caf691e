// Package quota bounds what one party keeps in room that all callers share. Each
// edge counts what it wrote itself, by payer, for as long as that is kept: a
// share of the room that is small enough for several edges (ADR 0022).
package quota

import (
	"container/list"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// maxPayers bounds the parties that an edge counts for. Of more, the one that
// wrote longest ago is forgotten.
const maxPayers = 10_000

// Quota counts what payers keep. Its methods may be used from any goroutine.
type Quota struct {
	what  string
	count int
	bytes int64

	mu     sync.Mutex
	payers map[string]*usage
	// order has the payers, who wrote last at the back.
	order *list.List
}

// usage is what one payer keeps, the oldest first.
type usage struct {
	payer  string
	place  *list.Element
	things *list.List
	byKey  map[string]*list.Element
	bytes  int64
}

type thing struct {
	key   string
	size  int64
	until time.Time
}

// New makes a quota of things, named in errors, and of bytes for each payer.
func New(what string, count int, bytes int64) *Quota {
	return &Quota{what: what, count: count, bytes: bytes, payers: map[string]*usage{}, order: list.New()}
}

// Keep counts a thing of a payer for as long as it lives. Of a key that is
// counted, the size and the life are changed. gone are the keys whose life is
// over, which the caller may remove. Without room the error has reason
// RateLimited and says when to come back, and nothing has changed.
func (q *Quota) Keep(payer, key string, size int, life time.Duration) (gone []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.of(payer)
	now := time.Now()
	gone = u.expire(now)
	before, count := int64(0), u.things.Len()
	if e := u.byKey[key]; e != nil {
		before = e.Value.(*thing).size
		count--
	}
	if count >= q.count || u.bytes-before+int64(size) > q.bytes {
		f := fault.New(fault.RateLimited, "too many %s are kept for you: at most %d, %d KiB together; come back when some are over", q.what, q.count, q.bytes>>10)
		if oldest := u.things.Front(); oldest != nil {
			f.RetryAfter = max(time.Second, oldest.Value.(*thing).until.Sub(now))
		}
		return gone, f
	}
	u.put(key, int64(size), now.Add(life))
	return gone, nil
}

// Displace counts a thing of a payer as Keep does, and returns the keys of those
// of its oldest things that have to make room.
func (q *Quota) Displace(payer, key string, size int, life time.Duration) (gone []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.of(payer)
	now := time.Now()
	u.expire(now)
	u.put(key, int64(size), now.Add(life))
	for u.things.Len() > 1 && (u.things.Len() > q.count || u.bytes > q.bytes) {
		gone = append(gone, u.remove(u.things.Front()))
	}
	return gone
}

// Count counts a thing of a payer, whatever room there is: for what cannot be
// refused any more.
func (q *Quota) Count(payer, key string, size int, life time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, now := q.of(payer), time.Now()
	u.expire(now)
	u.put(key, int64(size), now.Add(life))
}

// Release stops counting a thing.
func (q *Quota) Release(payer, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u := q.payers[payer]; u != nil {
		if e := u.byKey[key]; e != nil {
			u.remove(e)
		}
	}
}

// Room reports whether a payer has used less than a part of its bytes.
func (q *Quota) Room(payer string, part float64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.payers[payer]
	return u == nil || float64(u.bytes) < part*float64(q.bytes)
}

// of returns what a payer keeps.
func (q *Quota) of(payer string) *usage {
	u := q.payers[payer]
	if u == nil {
		if len(q.payers) >= maxPayers {
			delete(q.payers, q.order.Remove(q.order.Front()).(*usage).payer)
		}
		u = &usage{payer: payer, things: list.New(), byKey: map[string]*list.Element{}}
		u.place = q.order.PushBack(u)
		q.payers[payer] = u
	}
	q.order.MoveToBack(u.place)
	return u
}

func (u *usage) put(key string, size int64, until time.Time) {
	if e := u.byKey[key]; e != nil {
		u.remove(e)
	}
	u.byKey[key] = u.things.PushBack(&thing{key, size, until})
	u.bytes += size
}

func (u *usage) remove(e *list.Element) string {
	t := u.things.Remove(e).(*thing)
	delete(u.byKey, t.key)
	u.bytes -= t.size
	return t.key
}

// expire removes what is over, from the front: things of one quota live about
// equally long.
func (u *usage) expire(now time.Time) (gone []string) {
	for e := u.things.Front(); e != nil && now.After(e.Value.(*thing).until); e = u.things.Front() {
		gone = append(gone, u.remove(e))
	}
	return gone
}
