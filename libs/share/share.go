// Package share divides what accounts have in common by two rules: an account may have at
// most a part of it (Rule), and if it is full, the account that has most makes room
// (Queue). An account may belong to a tenant, whose accounts count together. An account
// without a tenant is a tenant by itself.
//
// A user adds locks, clocks and errors. Start with Rule.Allows and Account.Goes.
package share

// Rule is how much one account may have of a whole. Only Whole must be set.
type Rule struct {
	// Whole bounds all accounts together, and Most one account.
	Whole, Most int64
	// Free bounds one account by a multiple of what was free: the fuller the whole is, the
	// less an account that has much may have. So there is always room for one with little.
	Free int64
	// Spare is the last part of the whole. An account with half of the whole gets none of it.
	Spare int64
}

// Allows reports whether an account that has own may have n more, if all accounts together
// have all.
func (r Rule) Allows(all, own, n int64) bool {
	free := r.Whole - all
	switch {
	case n > free, r.Most > 0 && own+n > r.Most, r.Free > 0 && own+n > r.Free*free:
		return false
	}
	return free-n >= r.Spare || 2*(own+n-1) < r.Whole
}

// Pool counts what accounts have. The zero value is empty.
type Pool[K comparable] struct {
	all int64
	of  map[K]int64
}

// All is what all accounts have.
func (p *Pool[K]) All() int64 { return p.all }

// Of is what an account has.
func (p *Pool[K]) Of(account K) int64 { return p.of[account] }

// Add gives an account n more, whether a rule allows it or not; n may be negative.
func (p *Pool[K]) Add(account K, n int64) {
	if p.of == nil {
		p.of = map[K]int64{}
	}
	p.all += n
	if now := p.of[account] + n; now != 0 {
		p.of[account] = now
	} else {
		delete(p.of, account)
	}
}

// Take gives an account n more if the rule allows it.
func (p *Pool[K]) Take(r Rule, account K, n int64) bool {
	if !r.Allows(p.all, p.of[account], n) {
		return false
	}
	p.Add(account, n)
	return true
}
