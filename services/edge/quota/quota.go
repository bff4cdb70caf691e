// Package quota bounds what one party keeps in room that all callers share. Each
// edge counts what it wrote itself, by payer, for as long as that is kept: a
// share of the room that is small enough for several edges (ADR 0022). The payers of
// one tenant together have a share as well.
package quota

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// maxPayers bounds the parties that an edge counts for. Of more, the one that
// wrote longest ago is forgotten.
const maxPayers = 10_000

// ofTenant is how many times the share of a payer those of one tenant have together.
//
//limit:party parties whose share all of a tenant may have together | as for a party
const ofTenant = 4

// Quota counts what payers keep. Its methods may be used from any goroutine.
type Quota struct {
	what  string
	count int
	bytes int64

	mu      sync.Mutex
	payers  map[string]*usage
	tenants map[string]*tenant
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
	tenant *tenant
	// recounted is when Recount last gave its keys.
	recounted time.Time
}

// tenant is what the payers of one keep together. Addresses are of none, and each has
// a tenant of its own that nobody else is of.
type tenant struct {
	name   string
	payers map[string]*usage
	count  int
	bytes  int64
	// swept is when what is over was last looked for at all of them.
	swept time.Time
}

type thing struct {
	key   string
	size  int64
	until time.Time
}

// New makes a quota of things, named in errors, and of bytes for each payer.
func New(what string, count int, bytes int64) *Quota {
	return &Quota{what: what, count: count, bytes: bytes, payers: map[string]*usage{}, tenants: map[string]*tenant{}, order: list.New()}
}

// Tenant is that of a payer who is a principal, by its ID: the length of its tenant's
// name, a colon, that and its own. ok is false for any other text.
func Tenant(payer string) (name string, ok bool) {
	size, rest, _ := strings.Cut(payer, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return "", false
	}
	return rest[:n], true
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
		return gone, q.full(now, u, "you", 1)
	}
	if more := 1 - (u.things.Len() - count); !u.tenant.room(q, now, more, int64(size)-before) {
		return gone, q.full(now, u, "your tenant", ofTenant)
	}
	u.put(key, int64(size), now.Add(life))
	return gone, nil
}

// full is the error for a payer who has no room, or whose tenant has none.
func (q *Quota) full(now time.Time, u *usage, whose string, shares int) error {
	f := fault.New(fault.RateLimited, "too many %s are kept for %s: at most %d, %d KiB together; come back when some are over", q.what, whose, shares*q.count, int64(shares)*q.bytes>>10)
	f.RetryAfter = time.Second
	if oldest := u.things.Front(); oldest != nil {
		f.RetryAfter = max(time.Second, oldest.Value.(*thing).until.Sub(now))
	}
	return f
}

// Displace counts a thing of a payer as Keep does, and returns the keys of those
// that have to make room: its own oldest things, and where its tenant has no room,
// the oldest of whoever of that keeps most.
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
	for !u.tenant.room(q, now, 0, 0) {
		most := u.tenant.most()
		oldest := most.things.Front()
		if oldest.Value.(*thing).key == key {
			oldest = oldest.Next()
		}
		if oldest == nil {
			break
		}
		gone = append(gone, most.remove(oldest))
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

// Recount returns the keys that a payer is counted for, the oldest first, and nothing where
// it did within the last every: others may have ended some, which the caller may look for
// and Release.
func (q *Quota) Recount(payer string, every time.Duration) (keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, now := q.payers[payer], time.Now()
	if u == nil || now.Sub(u.recounted) < every {
		return nil
	}
	u.recounted = now
	for e := u.things.Front(); e != nil; e = e.Next() {
		keys = append(keys, e.Value.(*thing).key)
	}
	return keys
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
	return u == nil || float64(u.bytes) < part*float64(q.bytes) && float64(u.tenant.bytes) < ofTenant*part*float64(q.bytes)
}

// of returns what a payer keeps.
func (q *Quota) of(payer string) *usage {
	u := q.payers[payer]
	if u == nil {
		if len(q.payers) >= maxPayers {
			q.forget(q.order.Front().Value.(*usage))
		}
		u = &usage{payer: payer, things: list.New(), byKey: map[string]*list.Element{}, tenant: q.tenantOf(payer)}
		u.tenant.payers[payer] = u
		u.place = q.order.PushBack(u)
		q.payers[payer] = u
	}
	q.order.MoveToBack(u.place)
	return u
}

func (q *Quota) tenantOf(payer string) *tenant {
	name, ok := Tenant(payer)
	if !ok {
		return &tenant{payers: map[string]*usage{}}
	}
	if q.tenants[name] == nil {
		q.tenants[name] = &tenant{name: name, payers: map[string]*usage{}}
	}
	return q.tenants[name]
}

// forget stops counting all of a payer.
func (q *Quota) forget(u *usage) {
	t := u.tenant
	t.count, t.bytes = t.count-u.things.Len(), t.bytes-u.bytes
	delete(t.payers, u.payer)
	if len(t.payers) == 0 && q.tenants[t.name] == t {
		delete(q.tenants, t.name)
	}
	q.order.Remove(u.place)
	delete(q.payers, u.payer)
}

// room reports whether a tenant has room for so many things and bytes more. Before it
// has not, what is over of all its payers is removed, once a second.
func (t *tenant) room(q *Quota, now time.Time, things int, bytes int64) bool {
	fits := func() bool {
		return t.count+things <= ofTenant*q.count && t.bytes+bytes <= ofTenant*q.bytes
	}
	if fits() || now.Sub(t.swept) < time.Second {
		return fits()
	}
	t.swept = now
	for _, u := range t.payers {
		u.expire(now)
	}
	return fits()
}

// most is who keeps most.
func (t *tenant) most() (most *usage) {
	for _, u := range t.payers {
		if most == nil || u.bytes > most.bytes || u.bytes == most.bytes && u.payer < most.payer {
			most = u
		}
	}
	return most
}

func (u *usage) put(key string, size int64, until time.Time) {
	if e := u.byKey[key]; e != nil {
		u.remove(e)
	}
	u.byKey[key] = u.things.PushBack(&thing{key, size, until})
	u.bytes += size
	u.tenant.count++
	u.tenant.bytes += size
}

func (u *usage) remove(e *list.Element) string {
	t := u.things.Remove(e).(*thing)
	delete(u.byKey, t.key)
	u.bytes -= t.size
	u.tenant.count--
	u.tenant.bytes -= t.size
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
