package definition

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds how deep schemas are compared; what is deeper differs as a whole.
// Each level is read once for each above it.
const maxDepth = 32

// schema compares two schemas, of arguments or of results. It knows the few changes
// that are harmless; all others count as breaking.
func (c *comparison) schema(p place, input bool, depth int) {
	if p.before.Kind() != '{' || p.after.Kind() != '{' || depth > maxDepth {
		c.is(p, Breaking)
		return
	}
	each := func(p place) { c.schema(p, input, depth+1) }
	// added is a schema by its name: one more is additive, one less breaking.
	added := func(p place) {
		switch {
		case p.before == nil:
			c.is(p, Additive)
		case p.after == nil:
			c.is(p, Breaking)
		default:
			each(p)
		}
	}
	c.members(p.at, p.before, p.after, func(p place) {
		switch p.name {
		case "title", "description", "$comment", "examples":
			c.is(p, Words)
		case "properties", "$defs", "definitions":
			c.members(p.at, object(p.before), object(p.after), added)
		case "required":
			c.is(p, turn(input, more(p.before, p.after), more(p.after, p.before)))
		case "enum":
			// None takes any value.
			c.is(p, turn(input, p.before == nil || p.after != nil && more(p.after, p.before), p.after == nil || p.before != nil && more(p.before, p.after)))
		case "items", "additionalProperties":
			each(p)
		default:
			c.is(p, Breaking)
		}
	})
}

// turn is the class of a schema that takes fewer values than before, or more: callers
// cannot send what is not taken any more, nor rely on results that may be otherwise.
func turn(input, fewer, others bool) Class {
	switch {
	case input && fewer || !input && others:
		return Breaking
	case fewer || others:
		return Additive
	}
	return Words // the same in another order
}

// more reports whether a list has what another one has not. Lists that cannot be read
// count as if they had.
func more(before, after jsontext.Value) bool {
	var old, now []jsontext.Value
	if before != nil && json.Unmarshal(before, &old) != nil || after != nil && json.Unmarshal(after, &now) != nil {
		return true
	}
	return slices.ContainsFunc(now, func(v jsontext.Value) bool {
		return !slices.ContainsFunc(old, func(o jsontext.Value) bool { return bytes.Equal(o, v) })
	})
}
