package definition

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the depth of comparison; deeper schemas differ as a whole. Each level is read once for
// each level above it.
const maxDepth = 32

// schema compares two schemas, of arguments or of results. It knows the few harmless changes; all others
// count as Breaking.
func (c *comparison) schema(p place, input bool, depth int) {
	if p.before.Kind() != '{' || p.after.Kind() != '{' || depth > maxDepth {
		c.note(p, Breaking)
		return
	}
	each := func(p place) { c.schema(p, input, depth+1) }
	// added handles a schema with a name: a new one is Additive, a removed one Breaking.
	added := func(p place) {
		switch {
		case p.before == nil:
			c.note(p, Additive)
		case p.after == nil:
			c.note(p, Breaking)
		default:
			each(p)
		}
	}
	c.members(p.at, p.before, p.after, func(p place) {
		switch p.name {
		case "title", "description", "$comment", "examples":
			c.note(p, Words)
		case "properties", "$defs", "definitions":
			c.members(p.at, object(p.before), object(p.after), added)
		case "required":
			c.note(p, turn(input, more(p.before, p.after), more(p.after, p.before)))
		case "enum":
			// No schema accepts any value.
			c.note(p, turn(input, p.before == nil || p.after != nil && more(p.after, p.before), p.after == nil || p.before != nil && more(p.before, p.after)))
		case "items", "additionalProperties":
			each(p)
		default:
			c.note(p, Breaking)
		}
	})
}

// turn returns the class of a schema that accepts fewer values, or more, than before: callers can no
// longer send the removed ones, and cannot rely on results that may now differ.
func turn(input, fewer, others bool) Class {
	switch {
	case input && fewer || !input && others:
		return Breaking
	case fewer || others:
		return Additive
	}
	return Words // the same values in another order
}

// more reports whether a list has an element that another one lacks. Unreadable lists count as if they
// had.
func more(before, after jsontext.Value) bool {
	var old, now []jsontext.Value
	if before != nil && json.Unmarshal(before, &old) != nil || after != nil && json.Unmarshal(after, &now) != nil {
		return true
	}
	return slices.ContainsFunc(now, func(v jsontext.Value) bool {
		return !slices.ContainsFunc(old, func(o jsontext.Value) bool { return bytes.Equal(o, v) })
	})
}
