// Package quota bounds what one account keeps in room that all callers share. Each edge
// counts what it wrote itself, by account, for as long as it is kept. A share is small
// enough that several edges may each grant one (ADR 0022). The accounts of one tenant
// together have a share as well.
//
// Start with Quota: Keep refuses when a share is full, Displace makes the oldest entries
// go.
package quota

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
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

	mu     sync.Mutex
	things share.Queue[thing] // in turn, the account that wrote longest ago first
	byKey  map[key]*share.Item[thing]
	// swept is when expired things of all accounts were last removed.
	swept time.Time
}

// account is what one account keeps, or all of a tenant.
type account = share.Account[thing]

type key struct{ account, key string }

type thing struct {
	key   key
	until time.Time
	// recounted is when Recount last returned it.
	recounted time.Time
}

// New makes a quota of things and bytes for each account. what names the things in
// errors.
func New(what string, count int, bytes int64) *Quota {
	return &Quota{what: what, count: count, bytes: bytes, byKey: map[key]*share.Item[thing]{}}
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
func (q *Quota) Keep(account, name string, size int, life time.Duration) (gone []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, now := q.of(account), time.Now()
	gone = q.expire(a, now)
	things, bytes := 1, int64(size)
	if old := q.byKey[key{account, name}]; old != nil {
		things, bytes = 0, bytes-old.Size
	}
	if !q.fits(a, 1, things, bytes) {
		return gone, q.full(now, a, "you", 1)
	}
	if !q.tenantFits(a, now, things, bytes) {
		return gone, q.full(now, a, "your tenant", ofTenant)
	}
	q.put(a, key{account, name}, size, now.Add(life))
	return gone, nil
}

// full is the error for an account without room, or whose tenant has none.
func (q *Quota) full(now time.Time, a *account, whose string, shares int) error {
	f := fault.New(fault.RateLimited, "too many %s are kept for %s: at most %d, %d KiB together; come back when some are over", q.what, whose, shares*q.count, int64(shares)*q.bytes>>10)
	f.RetryAfter = time.Second
	if oldest := a.Oldest; oldest != nil {
		f.RetryAfter = max(time.Second, oldest.Value.until.Sub(now))
	}
	return f
}

// Displace counts a thing of an account as Keep does, and returns the keys of the things
// that have to make room: the account's own oldest ones, and if its tenant has no room,
// the oldest ones of the tenant's account that keeps most.
func (q *Quota) Displace(account, name string, size int, life time.Duration) (gone []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, now := q.of(account), time.Now()
	q.expire(a, now)
	latest := q.put(a, key{account, name}, size, now.Add(life))
	for a.Items > 1 && !q.fits(a, 1, 0, 0) {
		gone = append(gone, q.remove(a.Oldest))
	}
	for !q.tenantFits(a, now, 0, 0) {
		oldest := a.Tenant().Goes()
		if oldest == latest {
			break
		}
		gone = append(gone, q.remove(oldest))
	}
	return gone
}

// Count counts a thing of an account even if there is no room: for things that cannot be
// refused any more.
func (q *Quota) Count(account, name string, size int, life time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, now := q.of(account), time.Now()
	q.expire(a, now)
	q.put(a, key{account, name}, size, now.Add(life))
}

// Recount returns the keys that are counted for an account, the oldest first, without
// those that it returned within the time every. Others may have ended some of the things;
// the caller may look for those, and Release them.
func (q *Quota) Recount(account string, every time.Duration) (keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for i := q.of(account).Oldest; i != nil; i = i.Newer {
		if now.Sub(i.Value.recounted) >= every {
			i.Value.recounted = now
			keys = append(keys, i.Value.key.key)
		}
	}
	return keys
}

// Release stops counting a thing.
func (q *Quota) Release(account, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.byKey[key{account, name}]; i != nil {
		q.remove(i)
	}
}

// Below reports whether an account has used less than a part of its bytes.
func (q *Quota) Below(account string, part float64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, most := q.of(account), part*float64(q.bytes)
	return float64(a.Size) < most && float64(a.Tenant().Size) < ofTenant*most
}

// of returns the account of that name.
func (q *Quota) of(name string) *account {
	of := share.Name{Account: name}
	if tenant, ok := Tenant(name); ok { // with its length, so that principals without a tenant share one
		of.Tenant = name[:strings.IndexByte(name, ':')+1+len(tenant)]
	}
	return q.things.Of(of)
}

// fits reports whether an account or a tenant that has so many shares has room for a number
// of things and bytes more.
func (q *Quota) fits(a *account, shares, things int, bytes int64) bool {
	return a.Items+things <= shares*q.count && a.Size+bytes <= int64(shares)*q.bytes
}

// tenantFits is fits for the tenant of an account. If there is no room, expired things of
// all accounts are removed first, at most once a second.
func (q *Quota) tenantFits(a *account, now time.Time, things int, bytes int64) bool {
	switch {
	case q.fits(a.Tenant(), ofTenant, things, bytes):
		return true
	case now.Sub(q.swept) < time.Second:
		return false
	}
	q.swept = now
	for other := range q.things.Turns() {
		q.expire(other, now)
	}
	return q.fits(a.Tenant(), ofTenant, things, bytes)
}

func (q *Quota) put(a *account, k key, size int, until time.Time) *share.Item[thing] {
	if old := q.byKey[k]; old != nil {
		q.remove(old)
	}
	i := &share.Item[thing]{Value: thing{key: k, until: until}, Size: int64(size)}
	q.byKey[k] = i
	a.Add(i)
	a.Behind()
	for q.things.Accounts() > maxAccounts {
		q.forget()
	}
	return i
}

// forget stops counting everything of the account that wrote longest ago.
func (q *Quota) forget() {
	for first := range q.things.Turns() {
		for first.Items > 0 {
			q.remove(first.Oldest)
		}
		return
	}
}

func (q *Quota) remove(i *share.Item[thing]) string {
	delete(q.byKey, i.Value.key)
	i.Remove()
	return i.Value.key.key
}

// expire removes expired things from the front: the things of one quota live about
// equally long.
func (q *Quota) expire(a *account, now time.Time) (gone []string) {
	for i := a.Oldest; i != nil && now.After(i.Value.until); i = a.Oldest {
		gone = append(gone, q.remove(i))
	}
	return gone
}
