package share

import (
	"container/heap"
	"container/list"
	"iter"
)

// Queue has the items of accounts, the oldest first. Its zero value is empty. Account.Goes
// is the item that makes room. An account is in the queue while it has items or holds
// something, and a few are afterwards.
type Queue[T any] struct {
	// Newest makes the newest item of an account go, not the oldest.
	Newest bool

	// All is all accounts together.
	All Account[T]

	accounts map[Name]*Account[T]
	tenants  map[string]*Account[T]
	turns    list.List // *Account[T], those with items
	number   int64
}

// Name is the name of an account, and of its tenant if it has one.
type Name struct{ Tenant, Account string }

// Account is one account, all accounts of a tenant, or all. Only methods change it.
type Account[T any] struct {
	Name Name
	// Items and Size are the number of items and their size, and Held what is held besides.
	Items      int
	Size, Held int64
	// Oldest is the oldest item of one account, nil if it has none.
	Oldest, newest *Item[T]

	queue *Queue[T]
	above *Account[T] // nil for all
	// below is a heap of the accounts with items, by what makes room first. place is the index
	// of this account in the heap above, -1 if it has no items.
	below accounts[T]
	place int
	turn  *list.Element
	// known is the number of accounts in the queue that this is, or that this tenant has.
	known int
}

// maxEmpty is how many accounts are in a queue for the next time, though they have nothing.
const maxEmpty = 256

// Item is a thing of an account. It may be a part of its Value.
type Item[T any] struct {
	Value T
	Size  int64
	// Newer is the next item of the same account, nil if this is the newest.
	Newer *Item[T]

	older   *Item[T]
	account *Account[T]
	// number is less for an item that makes room first.
	number int64
}

// Accounts is the number of accounts in the queue. Up to 256 of them may have nothing.
func (q *Queue[T]) Accounts() int { return len(q.accounts) }

// Of is the account of that name. One that is not in the queue yet is forgotten unless
// something is added to it before the next call of Of.
func (q *Queue[T]) Of(name Name) *Account[T] {
	if a := q.accounts[name]; a != nil {
		return a
	}
	if q.accounts == nil {
		q.accounts, q.tenants = map[Name]*Account[T]{}, map[string]*Account[T]{}
	}
	above := &q.All
	if name.Tenant != "" {
		if above = q.tenants[name.Tenant]; above == nil {
			above = &Account[T]{Name: Name{Tenant: name.Tenant}, queue: q, above: &q.All, place: -1}
		}
	}
	return &Account[T]{Name: name, queue: q, above: above, place: -1}
}

// Tenant is the account's tenant, or the account itself if it has none.
func (a *Account[T]) Tenant() *Account[T] {
	if a.above == &a.queue.All {
		return a
	}
	return a.above
}

// Hold adds n to what is held; n may be negative.
func (a *Account[T]) Hold(n int64) {
	if a.Held == 0 || a.Held+n == 0 {
		a.change(0, 0, n)
		return
	}
	for ; a != nil; a = a.above { // it stays in the queue
		a.Held += n
	}
}

// Goes is the item that makes room first, nil without items: the oldest or newest one of the
// account with the largest sum of sizes, within the tenant with the largest sum. Among equal
// accounts it is the oldest or newest of all.
func (a *Account[T]) Goes() *Item[T] {
	for len(a.below) > 0 {
		a = a.below[0]
	}
	if a.queue != nil && a.queue.Newest {
		return a.newest
	}
	return a.Oldest
}

// Add makes an item the newest one of an account.
func (a *Account[T]) Add(i *Item[T]) {
	q := a.queue
	if q.number++; q.Newest {
		i.number = -q.number
	} else {
		i.number = q.number
	}
	if i.account, i.older = a, a.newest; a.newest == nil {
		a.Oldest = i
	} else {
		a.newest.Newer = i
	}
	a.newest = i
	a.change(1, i.Size, 0)
}

// PutBack makes an item the oldest one of an account again.
func (a *Account[T]) PutBack(i *Item[T]) {
	if i.account, i.Newer = a, a.Oldest; a.Oldest == nil {
		a.newest = i
	} else {
		a.Oldest.older = i
	}
	a.Oldest = i
	a.change(1, i.Size, 0)
}

// Remove takes the item out of its queue, if it is in one.
func (i *Item[T]) Remove() {
	a := i.account
	if a == nil {
		return
	}
	if i.older == nil {
		a.Oldest = i.Newer
	} else {
		i.older.Newer = i.Newer
	}
	if i.Newer == nil {
		a.newest = i.older
	} else {
		i.Newer.older = i.older
	}
	i.account, i.older, i.Newer = nil, nil, nil
	a.change(-1, -i.Size, 0)
}

// Turns are the accounts with items, the one whose turn it is first. The items of the account
// at hand may be removed meanwhile.
func (q *Queue[T]) Turns() iter.Seq[*Account[T]] {
	return func(yield func(*Account[T]) bool) {
		for e := q.turns.Front(); e != nil; {
			a := e.Value.(*Account[T])
			if e = e.Next(); !yield(a) {
				return
			}
		}
	}
}

// Behind makes an account the last one in turn.
func (a *Account[T]) Behind() { a.queue.turns.MoveToBack(a.turn) }

// change adds to what an account, its tenant, and all have.
func (a *Account[T]) change(items int, size, held int64) {
	q := a.queue
	for b := a; b != nil; b = b.above {
		b.Items, b.Size, b.Held = b.Items+items, b.Size+size, b.Held+held
		if items != 0 && b.above != nil {
			b.above.below.fix(b)
		}
	}
	switch {
	case a.Items > 0 && a.turn == nil:
		a.turn = q.turns.PushBack(a)
	case a.Items == 0 && a.turn != nil:
		q.turns.Remove(a.turn)
		a.turn = nil
	}
	switch empty, t := a.Items == 0 && a.Held == 0, a.Tenant(); {
	case !empty && a.known == 0:
		q.accounts[a.Name], a.known = a, 1
		if t != a {
			q.tenants[t.Name.Tenant], t.known = t, t.known+1
		}
	case empty && a.known > 0 && len(q.accounts) > maxEmpty:
		delete(q.accounts, a.Name)
		a.known = 0
		if t != a {
			if t.known--; t.known == 0 {
				delete(q.tenants, t.Name.Tenant)
			}
		}
	}
}

// accounts is a heap, by what makes room first.
type accounts[T any] []*Account[T]

// fix gives an account its place after a change.
func (h *accounts[T]) fix(a *Account[T]) {
	switch {
	case a.place < 0:
		heap.Push(h, a)
	case a.Items > 0:
		heap.Fix(h, a.place)
	default:
		heap.Remove(h, a.place)
	}
}

func (h accounts[T]) Len() int { return len(h) }

func (h accounts[T]) Less(i, j int) bool {
	if h[i].Size != h[j].Size {
		return h[i].Size > h[j].Size
	}
	return h[i].Goes().number < h[j].Goes().number
}

func (h accounts[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for heap.Push.
func (h *accounts[T]) Push(a any) {
	a.(*Account[T]).place = len(*h)
	*h = append(*h, a.(*Account[T]))
}

// Pop is for heap.Remove.
func (h *accounts[T]) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	a.place, (*h)[last] = -1, nil
	*h = (*h)[:last]
	return a
}
