// Package limit bounds how often and how many at once principals, tenants and
// tools are called, over all edges of a bus together (ADR 0032). An edge has a
// share of each limit; where its own is used up it asks another edge for tokens.
package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how many calls in how long; the zero Rate bounds nothing. Calls are
// spread over the time: at most one second's worth, or a single call where that is
// more, may come at once.
type Rate struct {
	Count int
	Per   time.Duration
}

var units = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}}

// maxCount bounds what a Rate counts.
const maxCount = 1_000_000_000

// ParseRate reads 200/s, 10/min or 5/h. There is no rate of 0: what nobody may
// call is denied, not limited.
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

// String is what ParseRate reads; empty for the zero Rate.
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

// slack makes up for what may be on its way between edges at any moment, and for
// clocks that do not run equally fast: tokens come that much more slowly.
const slack = 0.998

// perNano is how many tokens come in a nanosecond.
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

// String says the limits to people.
func (l Limits) String() string {
	switch {
	case l.Concurrent == 0:
		return l.Rate.String()
	case l.Rate == (Rate{}):
		return strconv.Itoa(l.Concurrent) + " calls at once"
	}
	return l.Rate.String() + ", " + strconv.Itoa(l.Concurrent) + " calls at once"
}

// Wider returns the more generous of what two roles say, each limit by itself. A
// role that does not give a limit leaves it to the other.
func (l Limits) Wider(other Limits) Limits {
	if l.Rate == (Rate{}) || other.Rate != (Rate{}) && other.Rate.perNano() > l.Rate.perNano() {
		l.Rate = other.Rate
	}
	l.Concurrent = max(l.Concurrent, other.Concurrent)
	return l
}
