package share_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/busbar-mcp/busbar/libs/share"
)

const mib = 1 << 20

// rules are the rules of all users, and what accounts get that take one after the other as much as
// they can, in steps of one size.
var rules = map[string]struct {
	rule share.Rule
	step int64
	want []int64
}{
	"calls in flight of an edge":           {share.Rule{Whole: 10_000, Free: 8}, 1, []int64{8889, 988, 110, 12, 1}},
	"results of an edge":                   {share.Rule{Whole: 128 * mib, Most: 64 * mib}, mib, []int64{64 * mib, 64 * mib, 0}},
	"large results of an edge":             {share.Rule{Whole: 96 * mib, Most: 64 * mib}, mib, []int64{64 * mib, 32 * mib, 0}},
	"calls that wait at an edge":           {share.Rule{Whole: 64, Most: 32}, 1, []int64{32, 32, 0}},
	"slots of an instance":                 {share.Rule{Whole: 64, Spare: 8}, 1, []int64{56, 8, 0}},
	"slots of a small instance":            {share.Rule{Whole: 4, Spare: 1}, 1, []int64{3, 1, 0}},
	"the only slot":                        {share.Rule{Whole: 1}, 1, []int64{1, 0}},
	"MiB of large results at an instance":  {share.Rule{Whole: 64, Spare: 8}, 12, []int64{48, 12, 0}},
	"a second account below half, at once": {share.Rule{Whole: 64, Spare: 8}, 16, []int64{48, 16, 0}},
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p share.Pool[int]
			for account, want := range c.want {
				for p.Take(c.rule, account, c.step) {
				}
				if got := p.Of(account); got != want {
					t.Errorf("account %d has %d, want %d", account, got, want)
				}
			}
		})
	}
}

// Whatever accounts take and give back, the rules hold, and the sums are right.
func TestRulesHold(t *testing.T) {
	t.Parallel()
	for name, c := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := rand.New(rand.NewPCG(1, 2))
			var p share.Pool[int]
			model := map[int]int64{}
			for range 20_000 {
				account, n := by.IntN(6), 1+by.Int64N(c.rule.Whole/3+1)
				if by.IntN(3) == 0 {
					n = -min(n, model[account])
					p.Add(account, n)
					model[account] += n
					continue
				}
				all, own := p.All(), model[account]
				taken := p.Take(c.rule, account, n)
				if taken {
					model[account] += n
				}
				over := all+n > c.rule.Whole ||
					c.rule.Most > 0 && own+n > c.rule.Most ||
					c.rule.Free > 0 && own+n > c.rule.Free*(c.rule.Whole-all) ||
					all+n > c.rule.Whole-c.rule.Spare && own+n > c.rule.Whole/2
				if taken == over {
					t.Fatalf("%d of %d: an account with %d takes %d: %t", all, c.rule.Whole, own, n, taken)
				}
				if c.rule.Free > 0 && all < c.rule.Whole && !c.rule.Allows(all, 0, 1) {
					t.Fatalf("%d of %d, and an account with nothing finds no room", all, c.rule.Whole)
				}
				sum := int64(0)
				for account, n := range model {
					if sum += n; p.Of(account) != n {
						t.Fatalf("account %d has %d, the model says %d", account, p.Of(account), n)
					}
				}
				if p.All() != sum {
					t.Fatalf("all have %d, the model says %d", p.All(), sum)
				}
			}
		})
	}
}

// The recent results of a source say what to expect of the next one.
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		had  []int64 // sizes of results, the oldest first; a negative size is another account's
		want int64
	}{
		"nothing is known":                        {nil, 0},
		"small results":                           {[]int64{100, 10}, 0},
		"one large result":                        {[]int64{301}, 301},
		"a new result counts half":                {[]int64{800, 400}, 600},
		"a tiny one after a large one":            {[]int64{800, 2}, 401},
		"small ones after a giant one":            {[]int64{1600, 2, 2, 2, 2, 2}, 0},
		"a large one after small ones":            {[]int64{1600, 2, 2, 2, 2, 2, 110}, 110},
		"of others":                               {[]int64{-800}, 800},
		"own small ones beside large ones":        {[]int64{-1600, 10, -1600, -1600}, 10},
		"own large ones beside small ones":        {[]int64{800, -104, 800, -104}, 800},
		"the first own one after those of others": {[]int64{-800, 200}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := share.Sizes[string]{Large: 100}
			for _, n := range c.had {
				if n < 0 {
					s.Note("tool", "other", -n)
				} else {
					s.Note("tool", "own", n)
				}
			}
			if got, known := s.Of("tool", "own"); got != c.want || known != (c.want > 0) {
				t.Errorf("%d is expected, known: %t; want %d", got, known, c.want)
			}
			if n, known := s.Of("other tool", "own"); n != 0 || known {
				t.Errorf("another source: %d", n)
			}
		})
	}
}

// A source with many accounts, and many sources, are forgotten beyond a number, the last ones never.
func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	s := share.Sizes[int]{Large: 100}
	for i := range 3000 {
		s.Note(i, "one", 1000)
		s.Note(-1, "one", 2000)
		s.Note(-1, strconv.Itoa(i), 4000)
		if n, _ := s.Of(i, "one"); n != 1000 {
			t.Fatalf("%d is expected of the last source", n)
		}
		if n, _ := s.Of(-1, strconv.Itoa(i)); n != 4000 {
			t.Fatalf("%d is expected of the last account", n)
		}
	}
	sources, accounts := 0, 0
	for i := range 3000 {
		if _, known := s.Of(i, "one"); known {
			sources++
		}
		if n, _ := s.Of(-1, strconv.Itoa(i)); n == 4000 {
			accounts++
		}
	}
	if sources < 1000 || sources > 1024 || accounts < 60 || accounts > 64 {
		t.Errorf("%d sources and %d accounts are remembered", sources, accounts)
	}
}

// kept is an item of the model.
type kept struct {
	of     share.Name
	size   int64
	number int
	item   share.Item[*kept]
}

// model is a queue without any cleverness.
type model struct {
	items  []*kept // the oldest first
	newest bool
}

// goes is the item that makes room: of the heaviest tenant, or account without one, and of its
// heaviest account.
func (m *model) goes(within func(*kept) bool) *kept {
	tenants, accounts := map[string]int64{}, map[share.Name]int64{}
	for _, k := range m.items {
		tenants[top(k.of)] += k.size
		accounts[k.of] += k.size
	}
	last := map[share.Name]*kept{}
	for _, k := range m.items {
		if old := last[k.of]; old == nil || m.newest {
			last[k.of] = k
		}
	}
	// heaviest of the items that would go, by weight, and among equals by age
	heavier := func(a, b *kept, x, y int64) bool {
		return b == nil || x > y || x == y && (a.number < b.number) != m.newest
	}
	best := map[string]*kept{} // of a tenant
	for _, k := range last {
		if within(k) && heavier(k, best[top(k.of)], accounts[k.of], weight(best[top(k.of)], accounts)) {
			best[top(k.of)] = k
		}
	}
	var goes *kept
	for tenant, k := range best {
		most := int64(0)
		if goes != nil {
			most = tenants[top(goes.of)]
		}
		if heavier(k, goes, tenants[tenant], most) {
			goes = k
		}
	}
	return goes
}

func weight(k *kept, of map[share.Name]int64) int64 {
	if k == nil {
		return 0
	}
	return of[k.of]
}

func top(n share.Name) string {
	if n.Tenant == "" {
		return "account " + n.Account
	}
	return "tenant " + n.Tenant
}

func (m *model) remove(k *kept) {
	i := slices.Index(m.items, k)
	m.items = slices.Delete(m.items, i, i+1)
}

// A random schedule: the queue and the model agree on which item makes room, of all and of each
// tenant, and on what everybody has. When the queue is full, nobody loses anything who has no more
// than an equal part.
func TestTheHeaviestMakesRoom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for _, newest := range []bool{false, true} {
			t.Run(fmt.Sprint(seed, newest), func(t *testing.T) {
				t.Parallel()
				by := rand.New(rand.NewPCG(seed, 7))
				q, m := share.Queue[*kept]{Newest: newest}, model{newest: newest}
				held := map[share.Name]int64{}
				for step := range 400 {
					name := share.Name{Account: strconv.Itoa(by.IntN(20))}
					if by.IntN(2) == 0 {
						name = share.Name{Tenant: strconv.Itoa(by.IntN(3)), Account: strconv.Itoa(by.IntN(3))}
					}
					a := q.Of(name)
					switch by.IntN(6) {
					case 0, 1, 2:
						k := &kept{of: name, size: by.Int64N(5), number: step}
						k.item = share.Item[*kept]{Value: k, Size: k.size}
						a.Add(&k.item)
						m.items = append(m.items, k)
					case 3:
						n := by.Int64N(3) - min(held[name], 1)
						a.Hold(n)
						held[name] += n
					case 4:
						if len(m.items) > 0 {
							k := m.items[by.IntN(len(m.items))]
							k.item.Remove()
							k.item.Remove() // again, which does nothing
							m.remove(k)
						}
					case 5:
						for q.All.Size > 60 {
							k := q.All.Goes().Value
							if has, equal := tops(&m)[top(k.of)], q.All.Size/int64(len(tops(&m))); has < equal {
								t.Fatalf("%v has %d and makes room, an equal part is %d", k.of, has, equal)
							}
							agree(t, &q, &m)
							k.item.Remove()
							m.remove(k)
						}
					}
					if step%5 == 0 {
						agree(t, &q, &m)
					}
					if got, want := q.Of(name).Held, held[name]; got != want {
						t.Fatalf("%v holds %d, want %d", name, got, want)
					}
				}
				for len(m.items) > 0 {
					m.items[0].item.Remove()
					m.items = m.items[1:]
				}
				for name, n := range held {
					q.Of(name).Hold(-n)
				}
				if all := &q.All; all.Items != 0 || all.Size != 0 || all.Held != 0 || all.Goes() != nil || q.Accounts() > 256 {
					t.Errorf("left: %d items of %d, %d held, %d accounts", all.Items, all.Size, all.Held, q.Accounts())
				}
			})
		}
	}
}

func tops(m *model) map[string]int64 {
	all := map[string]int64{}
	for _, k := range m.items {
		all[top(k.of)] += k.size
	}
	return all
}

func agree(t *testing.T, q *share.Queue[*kept], m *model) {
	t.Helper()
	sum, turns, sizes := int64(0), 0, tops(m)
	seen := map[string]bool{}
	for a := range q.Turns() {
		turns += a.Items
		sum += a.Size
		if tenant := top(a.Name); !seen[tenant] {
			seen[tenant] = true
			got, want := a.Tenant().Goes(), m.goes(func(k *kept) bool { return top(k.of) == tenant })
			if got.Value != want || a.Tenant().Size != sizes[tenant] {
				t.Fatalf("of %s, which has %d, goes %v; want %v of %d", tenant, a.Tenant().Size, *got.Value, *want, sizes[tenant])
			}
		}
	}
	if all := q.All; sum != all.Size || turns != all.Items || turns != len(m.items) || len(seen) != len(sizes) {
		t.Fatalf("%d items of %d in turn; want %d of %d, %d of the model", turns, sum, all.Items, all.Size, len(m.items))
	}
	want := m.goes(func(*kept) bool { return true })
	if got := q.All.Goes(); (got == nil) != (want == nil) || got != nil && got.Value != want {
		t.Fatalf("%v goes, want %v", got, want)
	}
}

// A queue remembers a bounded number of accounts that have nothing, and none twice.
func TestEmptyAccountsAreForgotten(t *testing.T) {
	t.Parallel()
	var q share.Queue[int]
	for i := range 3000 {
		a := q.Of(share.Name{Tenant: strconv.Itoa(i % 7 * (i % 2)), Account: strconv.Itoa(i)})
		a.Hold(2)
		if again := q.Of(a.Name); again != a || a.Tenant().Held < 2 {
			t.Fatalf("account %d is there twice, or its tenant has %d", i, a.Tenant().Held)
		}
		a.Hold(-1)
		a.Hold(-1)
		a.Hold(0)
	}
	if n := q.Accounts(); n != 256 || q.All.Held != 0 {
		t.Errorf("%d accounts are remembered, %d held", n, q.All.Held)
	}
}

// Accounts are served in turn, and what is put back is the first again.
func TestTurns(t *testing.T) {
	t.Parallel()
	var q share.Queue[string]
	put := func(account, value string) { q.Of(share.Name{Account: account}).Add(&share.Item[string]{Value: value}) }
	take := func() (s string) {
		for a := range q.Turns() {
			i := a.Oldest
			a.Behind()
			i.Remove()
			return i.Value
		}
		return ""
	}
	for _, v := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
		put(v[:1], v)
	}
	got := take() + take()
	q.Of(share.Name{Account: "b"}).PutBack(&share.Item[string]{Value: "b1"})
	q.Of(share.Name{Account: "a"}).PutBack(&share.Item[string]{Value: "a1"})
	for v := take(); v != ""; v = take() {
		got += " " + v
	}
	if want := "a1b1 c1 a1 b1 c2 a2 a3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if q.Accounts() > 3 || q.All.Items != 0 {
		t.Errorf("%d accounts, %d items", q.Accounts(), q.All.Items)
	}
}
