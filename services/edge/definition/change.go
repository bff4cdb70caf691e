package definition

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Class is what a change means, the least first.
type Class uint8

// Classes of changes.
const (
	// None: nothing has changed.
	None Class = iota
	// Words: what people and models read. That is harmless to programs, and the way by
	// which a service tells models to do something else.
	Words
	// Additive: callers may send more, or get more.
	Additive
	// Breaking: what callers send or rely on may not be good any more.
	Breaking
	// Power: the tool may do more, or is looked at less, than before.
	Power
)

func (c Class) String() string {
	return [...]string{"none", "words", "additive", "breaking", "more power"}[c]
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Difference is one place in which two definitions differ.
type Difference struct {
	// At is the place, a JSON pointer into Definition.Text.
	At    jsontext.Pointer `json:"at"`
	Class Class            `json:"class"`
	// Before and After are what is there; none where nothing is.
	Before jsontext.Value `json:"-"`
	After  jsontext.Value `json:"-"`
}

// Compare returns where two definitions differ, in the order of the places. Of texts
// that were too large to be kept it says no more than that they differ, which counts as
// more power: nobody can say that it is less.
func Compare(before, after Definition) []Difference {
	if before.Digest == after.Digest {
		return nil
	}
	if before.Text == nil || after.Text == nil {
		return []Difference{{Class: Power}}
	}
	c := comparison{}
	c.members("", before.Text, after.Text, c.top)
	slices.SortStableFunc(c.all, func(a, b Difference) int { return bytes.Compare([]byte(a.At), []byte(b.At)) })
	return c.all
}

// ClassOf is that of a change: its gravest difference's.
func ClassOf(all []Difference) (most Class) {
	for _, d := range all {
		most = max(most, d.Class)
	}
	return most
}

// comparison collects differences.
type comparison struct{ all []Difference }

// place is a member of two objects, which differs.
type place struct {
	at            jsontext.Pointer
	name          string
	before, after jsontext.Value
}

// is the class of a difference, noted.
func (c *comparison) is(p place, class Class) {
	c.all = append(c.all, Difference{p.at, class, p.before, p.after})
}

// members calls f for each member in which two objects differ. What are no objects
// differ as a whole, as breaking.
func (c *comparison) members(at jsontext.Pointer, before, after jsontext.Value, f func(place)) {
	var old, now map[string]jsontext.Value
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &now) != nil {
		c.is(place{at, "", before, after}, Breaking)
		return
	}
	all := maps.Clone(now)
	if all == nil {
		all = map[string]jsontext.Value{}
	}
	maps.Copy(all, old)
	for name := range all {
		if p := (place{at.AppendToken(name), name, old[name], now[name]}); !bytes.Equal(p.before, p.after) {
			f(p)
		}
	}
}

// top compares what is said besides the entry.
func (c *comparison) top(p place) {
	switch p.name {
	case "entry":
		c.members(p.at, p.before, p.after, c.entry)
	case "inputSchema":
		c.schema(p, true, 0)
	case "service", "readOnly":
		// What is read-only is not recorded before it runs, and may run twice.
		c.is(p, Power)
	case "requiresApproval":
		c.is(p, either(truth(p.before), Power, Breaking))
	case "cacheShared", "callsTools", "keepsKeys":
		c.is(p, either(truth(p.after), Power, Additive))
	case "timeoutMs":
		c.is(p, either(longer(p.before, p.after), Power, Breaking))
	default:
		c.is(p, Breaking)
	}
}

// entry compares what clients see.
func (c *comparison) entry(p place) {
	switch p.name {
	case "title", "description", "icons":
		c.is(p, Words)
	case "inputSchema":
		c.schema(p, true, 0)
	case "outputSchema":
		if p.before == nil {
			c.is(p, Additive)
			return
		}
		c.schema(p, false, 0)
	case "annotations":
		c.members(p.at, object(p.before), object(p.after), c.annotation)
	default:
		c.is(p, Breaking)
	}
}

// annotation compares hints, by which clients decide whether to ask a person: to gain
// one that calms is as grave as to lose it.
func (c *comparison) annotation(p place) {
	switch p.name {
	case "title":
		c.is(p, Words)
	case "idempotentHint":
		c.is(p, Breaking)
	default:
		c.is(p, Power)
	}
}

func either(is bool, yes, no Class) Class {
	if is {
		return yes
	}
	return no
}

func truth(v jsontext.Value) bool { return v.Kind() == 't' }

// object is a value, or an empty object for none.
func object(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("{}")
	}
	return v
}

// defaultTimeout is how long a call takes whose tool says 0, milliseconds.
const defaultTimeout = 30_000

func longer(before, after jsontext.Value) bool {
	time := func(v jsontext.Value) (ms uint32) {
		if json.Unmarshal(v, &ms) != nil || ms == 0 {
			return defaultTimeout
		}
		return ms
	}
	return time(after) > time(before)
}
