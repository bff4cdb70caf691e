// Package quota bounds what one account keeps in room that all callers share. Each edge
// counts what it wrote itself, by account, for as long as it is kept. A share is small
// enough that several edges may each grant one (ADR 0022). The accounts of one tenant
// together have a share as well.
//
// Start with Quota: Keep refuses when a share is full, Displace makes the oldest entries
// go.
package quota

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// maxAccounts bounds the accounts that an edge counts. Beyond that, it forgets the
// account that wrote longest ago.
const maxAccounts = 10_000

// ofTenant is the share of a tenant's accounts together, as a multiple of one account's
// share.
const ofTenant = 4

// Quota counts what accounts keep. Its methods may be called concurrently.
type Quota struct {
	what  string
	count int
	bytes int64

	mu       sync.Mutex
	accounts map[string]*usage
	tenants  map[string]*tenant
	// order has the accounts, with the one that wrote last at the back.
	order *list.List
}

// usage is what one account keeps, the oldest first.
type usage struct {
	account string
	place   *list.Element
	things  *list.List
	byKey   map[string]*list.Element
	bytes   int64
	tenant  *tenant
	// recounted is when Recount last returned the account's keys.
	recounted time.Time
}

// tenant is what the accounts of one tenant keep together. Addresses have no tenant; each
// gets an entry of its own that nobody shares.
type tenant struct {
	name     string
	accounts map[string]*usage
	count    int
	bytes    int64
	// swept is when expired things of all its accounts were last removed.
	swept time.Time
}

type thing struct {
	key   string
	size  int64
	until time.Time
}

// New makes a quota of things and bytes for each account. what names the things in
// errors.
func New(what string, count int, bytes int64) *Quota {
	return &Quota{what: what, count: count, bytes: bytes, accounts: map[string]*usage{}, tenants: map[string]*tenant{}, order: list.New()}
}

// Tenant is the tenant of an account that is a principal, by its ID: the length of the
// tenant's name, a colon, that name, and the principal's own. ok is false for any other
// text.
func Tenant(account string) (name string, ok bool) {
	size, rest, _ := strings.Cut(account, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return "", false
	}
	return rest[:n], true
}

// Keep counts a thing of an account for as long as it lives. If the key is counted
// already, its size and life are changed. gone are the keys whose life is over; the
// caller may remove their things. Without room, the error has reason RateLimited and says
// when to come back, and nothing has changed.
func (q *Quota) Keep(account, key string, size int, life time.Duration) (gone []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.usageOf(account)
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
	if more := 1 - (u.things.Len() - count); !u.tenant.fits(q, now, more, int64(size)-before) {
		return gone, q.full(now, u, "your tenant", ofTenant)
	}
	u.put(key, int64(size), now.Add(life))
	return gone, nil
}

// full is the error for an account without room, or whose tenant has none.
func (q *Quota) full(now time.Time, u *usage, whose string, shares int) error {
	f := fault.New(fault.RateLimited, "too many %s are kept for %s: at most %d, %d KiB together; come back when some are over", q.what, whose, shares*q.count, int64(shares)*q.bytes>>10)
	f.RetryAfter = time.Second
	if oldest := u.things.Front(); oldest != nil {
		f.RetryAfter = max(time.Second, oldest.Value.(*thing).until.Sub(now))
	}
	return f
}

// Displace counts a thing of an account as Keep does, and returns the keys of the things
// that have to make room: the account's own oldest ones, and if its tenant has no room,
// the oldest ones of the tenant's account that keeps most.
func (q *Quota) Displace(account, key string, size int, life time.Duration) (gone []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.usageOf(account)
	now := time.Now()
	u.expire(now)
	u.put(key, int64(size), now.Add(life))
	for u.things.Len() > 1 && (u.things.Len() > q.count || u.bytes > q.bytes) {
		gone = append(gone, u.remove(u.things.Front()))
	}
	for !u.tenant.fits(q, now, 0, 0) {
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

// Count counts a thing of an account even if there is no room: for things that cannot be
// refused any more.
func (q *Quota) Count(account, key string, size int, life time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, now := q.usageOf(account), time.Now()
	u.expire(now)
	u.put(key, int64(size), now.Add(life))
}

// Recount returns the keys that are counted for an account, the oldest first. It returns
// none if it did so within the time every. Others may have ended some of the things; the
// caller may look for those, and Release them.
func (q *Quota) Recount(account string, every time.Duration) (keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, now := q.accounts[account], time.Now()
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
func (q *Quota) Release(account, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u := q.accounts[account]; u != nil {
		if e := u.byKey[key]; e != nil {
			u.remove(e)
		}
	}
}

// Below reports whether an account has used less than a part of its bytes.
func (q *Quota) Below(account string, part float64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.accounts[account]
	return u == nil || float64(u.bytes) < part*float64(q.bytes) && float64(u.tenant.bytes) < ofTenant*part*float64(q.bytes)
}

// usageOf returns the usage of an account.
func (q *Quota) usageOf(account string) *usage {
	u := q.accounts[account]
	if u == nil {
		if len(q.accounts) >= maxAccounts {
			q.forget(q.order.Front().Value.(*usage))
		}
		u = &usage{account: account, things: list.New(), byKey: map[string]*list.Element{}, tenant: q.tenantOf(account)}
		u.tenant.accounts[account] = u
		u.place = q.order.PushBack(u)
		q.accounts[account] = u
	}
	q.order.MoveToBack(u.place)
	return u
}

func (q *Quota) tenantOf(account string) *tenant {
	name, ok := Tenant(account)
	if !ok {
		return &tenant{accounts: map[string]*usage{}}
	}
	if q.tenants[name] == nil {
		q.tenants[name] = &tenant{name: name, accounts: map[string]*usage{}}
	}
	return q.tenants[name]
}

// forget stops counting everything of an account.
func (q *Quota) forget(u *usage) {
	t := u.tenant
	t.count, t.bytes = t.count-u.things.Len(), t.bytes-u.bytes
	delete(t.accounts, u.account)
	if len(t.accounts) == 0 && q.tenants[t.name] == t {
		delete(q.tenants, t.name)
	}
	q.order.Remove(u.place)
	delete(q.accounts, u.account)
}

// fits reports whether a tenant has room for a number of things and bytes more. If it has
// not, expired things of all its accounts are removed first, at most once a second.
func (t *tenant) fits(q *Quota, now time.Time, things int, bytes int64) bool {
	fits := func() bool {
		return t.count+things <= ofTenant*q.count && t.bytes+bytes <= ofTenant*q.bytes
	}
	if fits() || now.Sub(t.swept) < time.Second {
		return fits()
	}
	t.swept = now
	for _, u := range t.accounts {
		u.expire(now)
	}
	return fits()
}

// most is the usage of the account that keeps most.
func (t *tenant) most() (most *usage) {
	for _, u := range t.accounts {
		if most == nil || u.bytes > most.bytes || u.bytes == most.bytes && u.account < most.account {
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

// expire removes expired things from the front: the things of one quota live about
// equally long.
func (u *usage) expire(now time.Time) (gone []string) {
	for e := u.things.Front(); e != nil && now.After(e.Value.(*thing).until); e = u.things.Front() {
		gone = append(gone, u.remove(e))
	}
	return gone
}
