package toolset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ToolEntry returns a tool's list entry in the form of the member, a JSON object. The error says why that
// is not possible.
func (m *Member) ToolEntry(shown string, entry []byte) ([]byte, error) {
	return m.entry(shown, entry, func(members map[string]jsontext.Value) error {
		raw, err := without(members["inputSchema"], m.Fixed)
		members["inputSchema"] = raw
		return err
	})
}

// PromptEntry is ToolEntry for a prompt.
func (m *Member) PromptEntry(shown string, entry []byte) ([]byte, error) {
	return m.entry(shown, entry, func(members map[string]jsontext.Value) error {
		var arguments []jsontext.Value
		if raw := members["arguments"]; raw != nil {
			if err := json.Unmarshal(raw, &arguments); err != nil {
				return err
			}
		}
		left := slices.DeleteFunc(slices.Clone(arguments), func(raw jsontext.Value) bool {
			var argument struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &argument) != nil {
				return false
			}
			_, fixed := m.Fixed[argument.Name]
			return fixed
		})
		if len(arguments)-len(left) != len(m.Fixed) {
			return errors.New("it does not have an argument that the toolset fixes")
		}
		var err error
		members["arguments"], err = json.Marshal(left)
		return err
	})
}

func (m *Member) entry(shown string, entry []byte, fix func(map[string]jsontext.Value) error) ([]byte, error) {
	if shown == m.Tool && m.Title == nil && m.Description == nil && len(m.Fixed) == 0 {
		return entry, nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(entry, &members); err != nil {
		return nil, err
	}
	for name, text := range map[string]*string{"name": &shown, "title": m.Title, "description": m.Description} {
		if text == nil {
			continue
		}
		raw, err := json.Marshal(*text)
		if err != nil {
			return nil, err
		}
		members[name] = raw
	}
	if len(m.Fixed) > 0 {
		if err := fix(members); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members, json.Deterministic(true))
}

// without returns the schema of arguments without the fixed ones, which must be properties of the schema
// itself. Conditions on them in its branches count as met: the whole schema is checked before each call.
func without(schema jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
	var root struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	for name := range fixed {
		if root.Properties[name] == nil {
			return nil, fmt.Errorf("its input schema has no property %s to fix", name)
		}
	}
	return strip(schema, fixed)
}

// about lists the keywords by which a schema describes the properties of one object, including those with
// subschemas for the same object: one, a list, or by names.
var about = map[string]func(jsontext.Value, map[string]jsontext.Value) (jsontext.Value, error){}

func init() {
	about["properties"] = drop
	about["required"] = keep
	about["dependentRequired"] = func(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
		left, err := drop(raw, fixed)
		if err != nil {
			return nil, err
		}
		return each(left, fixed, keep)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "not"} {
		about[keyword] = branch
	}
	about["dependentSchemas"] = func(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
		return each(raw, fixed, strip)
	}
}

// strip returns a schema without some properties.
func strip(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
	if raw.Kind() != '{' { // true or false
		return raw, nil
	}
	var schema map[string]jsontext.Value
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	for keyword, value := range schema {
		if f := about[keyword]; f != nil {
			left, err := f(value, fixed)
			if err != nil {
				return nil, err
			}
			schema[keyword] = left
		}
	}
	return json.Marshal(schema, json.Deterministic(true))
}

// branch strips one schema, or each of a list.
func branch(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
	if raw.Kind() != '[' {
		return strip(raw, fixed)
	}
	var all []jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for i := range all {
		var err error
		if all[i], err = strip(all[i], fixed); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// each applies f to each member of an object.
func each(raw jsontext.Value, fixed map[string]jsontext.Value, f func(jsontext.Value, map[string]jsontext.Value) (jsontext.Value, error)) (jsontext.Value, error) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for name, value := range all {
		left, err := f(value, fixed)
		if err != nil {
			return nil, err
		}
		all[name] = left
	}
	return json.Marshal(all, json.Deterministic(true))
}

// drop removes the fixed members from an object.
func drop(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for name := range fixed {
		delete(all, name)
	}
	return json.Marshal(all, json.Deterministic(true))
}

// keep removes the fixed names from a list.
func keep(raw jsontext.Value, fixed map[string]jsontext.Value) (jsontext.Value, error) {
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	return json.Marshal(slices.DeleteFunc(all, func(name string) bool { _, is := fixed[name]; return is }))
}
