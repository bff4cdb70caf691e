// Package limit bounds how often, and how many at a time, principals, tenants and tools are
// called, over all edges of a bus together (ADR 0032). Each edge holds a share of every limit and
// decides alone while that lasts; when it is used up, the edge borrows tokens from another one. A
// limit holds because shares never add up to more than the whole, whichever edges join, leave or
// fail. Start with Limiter.Acquire; then read members.go (which edges share), share.go (how much
// each has) and borrow.go (how tokens move).
package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of calls per time; the zero Rate bounds nothing. Calls are spread over the
// time: at most the calls of one second may come at once, or a single call if that is more.
type Rate struct {
	Count int
	Per   time.Duration
}

var units = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}}

// maxCount bounds the count of a Rate.
const maxCount = 1_000_000_000

// ParseRate reads 200/s, 10/min or 5/h. A rate of 0 is invalid: a policy denies a tool that
// nobody may call, instead of limiting it.
func ParseRate(s string) (Rate, error) {
	count, unit, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	for _, u := range units {
		if u.name == unit && err == nil && n > 0 && n <= maxCount && count == strconv.Itoa(n) {
			return Rate{n, u.per}, nil
		}
	}
	return Rate{}, fmt.Errorf("rate %q: write a number from 1 to %d, a slash and s, min or h, such as 200/s", s, maxCount)
}

// String is the text that ParseRate reads; empty for the zero Rate.
func (r Rate) String() string {
	for _, u := range units {
		if u.per == r.Per {
			return strconv.Itoa(r.Count) + "/" + u.name
		}
	}
	return ""
}

// UnmarshalText implements encoding.TextUnmarshaler, for YAML and JSON.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// slack compensates for tokens that are on their way between edges at any moment, and for clocks
// that run at different speeds: tokens accrue that much more slowly.
const slack = 0.998

// perNano is how many tokens accrue in a nanosecond.
func (r Rate) perNano() float64 { return slack * float64(r.Count) / float64(r.Per) }

// burst is how many tokens there are at most, at all edges together.
func (r Rate) burst() float64 {
	return max(1, float64(r.Count)*float64(time.Second)/float64(r.Per))
}

// Limits bound one party, or one tool. A zero field bounds nothing.
type Limits struct {
	Rate Rate `json:"rate,omitzero" yaml:"rate,omitempty"`
	// Concurrent is how many calls may be in flight.
	Concurrent int `json:"concurrent,omitzero" yaml:"concurrent,omitempty"`
}

// String describes the limits for people.
func (l Limits) String() string {
	switch {
	case l.Concurrent == 0:
		return l.Rate.String()
	case l.Rate == (Rate{}):
		return strconv.Itoa(l.Concurrent) + " calls at once"
	}
	return l.Rate.String() + ", " + strconv.Itoa(l.Concurrent) + " calls at once"
}

// Wider returns the more generous limits of two roles, each limit by itself. A role that does not
// set a limit leaves it to the other.
func (l Limits) Wider(other Limits) Limits {
	if l.Rate == (Rate{}) || other.Rate != (Rate{}) && other.Rate.perNano() > l.Rate.perNano() {
		l.Rate = other.Rate
	}
	l.Concurrent = max(l.Concurrent, other.Concurrent)
	return l
}
