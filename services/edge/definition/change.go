package definition

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Class is the meaning of a change, in order of severity.
type Class uint8

// Classes of changes.
const (
	// None: nothing has changed.
	None Class = iota
	// Words: texts for people and models changed. That is harmless to programs, but a service
	// can use it to make models do something else.
	Words
	// Additive: callers may send or receive more.
	Additive
	// Breaking: input that callers send, or results they rely on, may no longer be valid.
	Breaking
	// Power: the tool may do more, or is supervised less, than before.
	Power
)

func (c Class) String() string {
	return [...]string{"none", "words", "additive", "breaking", "more power"}[c]
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Difference is one place at which two definitions differ.
type Difference struct {
	// At is the place, a JSON pointer into Definition.Text.
	At    jsontext.Pointer `json:"at"`
	Class Class            `json:"class"`
	// Before and After are the values there; nil if there is no value.
	Before jsontext.Value `json:"-"`
	After  jsontext.Value `json:"-"`
}

// Compare returns the differences of two definitions, ordered by place. If their texts were too large to
// be kept, it reports only that they differ, with class Power, because it cannot be shown to be less.
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

// ClassOf returns the class of a change: the class of its most severe difference.
func ClassOf(all []Difference) (most Class) {
	for _, d := range all {
		most = max(most, d.Class)
	}
	return most
}

// comparison collects differences.
type comparison struct{ all []Difference }

// place is a member that differs between two objects.
type place struct {
	at            jsontext.Pointer
	name          string
	before, after jsontext.Value
}

// note records a difference with its class.
func (c *comparison) note(p place, class Class) {
	c.all = append(c.all, Difference{p.at, class, p.before, p.after})
}

// members calls f for each member in which two objects differ. Values that are not objects differ as a
// whole, with class Breaking.
func (c *comparison) members(at jsontext.Pointer, before, after jsontext.Value, f func(place)) {
	var old, now map[string]jsontext.Value
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &now) != nil {
		c.note(place{at, "", before, after}, Breaking)
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

// top compares the parts besides the entry.
func (c *comparison) top(p place) {
	switch p.name {
	case "entry":
		c.members(p.at, p.before, p.after, c.entry)
	case "inputSchema":
		c.schema(p, true, 0)
	case "service", "readOnly":
		// A read-only call is not recorded before it runs, and may run twice.
		c.note(p, Power)
	case "requiresApproval":
		c.note(p, either(truth(p.before), Power, Breaking))
	case "cacheShared", "callsTools", "keepsKeys":
		c.note(p, either(truth(p.after), Power, Additive))
	case "timeoutMs":
		c.note(p, either(longer(p.before, p.after), Power, Breaking))
	default:
		c.note(p, Breaking)
	}
}

// entry compares the parts that clients see.
func (c *comparison) entry(p place) {
	switch p.name {
	case "title", "description", "icons":
		c.note(p, Words)
	case "inputSchema":
		c.schema(p, true, 0)
	case "outputSchema":
		if p.before == nil {
			c.note(p, Additive)
			return
		}
		c.schema(p, false, 0)
	case "annotations":
		c.members(p.at, object(p.before), object(p.after), c.annotation)
	default:
		c.note(p, Breaking)
	}
}

// annotation compares hints by which clients decide whether to ask a person. Gaining a reassuring hint is
// as severe as losing a warning one.
func (c *comparison) annotation(p place) {
	switch p.name {
	case "title":
		c.note(p, Words)
	case "idempotentHint":
		c.note(p, Breaking)
	default:
		c.note(p, Power)
	}
}

func either(is bool, yes, no Class) Class {
	if is {
		return yes
	}
	return no
}

func truth(v jsontext.Value) bool { return v.Kind() == 't' }

// object returns a value, or an empty object if the value is nil.
func object(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("{}")
	}
	return v
}

// defaultTimeout is the timeout of a call if the tool's is 0, in milliseconds.
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
