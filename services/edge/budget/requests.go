package budget

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// brief is what a call may bring without being counted: those that are have a
// bound in number.
const brief = 4 << 10

// Carry makes room for what a call of a party has brought, n bytes, until release,
// which is called once. All calls have as much room as all results have, and a
// party half of it. The error is a *fault.Error with reason Overloaded.
func (b *Budget) Carry(party string, n int) (release func(), err error) {
	if n <= brief {
		return func() {}, nil
	}
	size := int64(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.carried+size > b.limit || b.carriers[party]+size > b.limit/2 {
		e := fault.New(fault.Overloaded, "the calls in flight have as many bytes as the edge takes; wait for an answer, and try again").Ran(fault.No)
		e.RetryAfter = time.Second
		return nil, e
	}
	b.carried += size
	b.carriers[party] += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.carried -= size
		if b.carriers[party] -= size; b.carriers[party] == 0 {
			delete(b.carriers, party)
		}
	}, nil
}
