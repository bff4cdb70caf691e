package schema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// holds says where the value of a JSON Schema keyword contains schemas.
type holds byte

const (
	nothing holds = iota
	aSchema       // the value
	schemas       // the elements of a list
	either        // one or the other
	named         // the members of an object
)

// keywords has the keywords of all drafts that contain schemas. Keywords that limit other
// properties, such as additionalProperties and unevaluatedProperties, are not included: every
// client accepts true or false there.
var keywords = map[string]holds{
	"items": either, "additionalItems": aSchema, "contains": aSchema, "propertyNames": aSchema, "not": aSchema,
	"if": aSchema, "then": aSchema, "else": aSchema, "unevaluatedItems": aSchema, "contentSchema": aSchema,
	"prefixItems": schemas, "allOf": schemas, "anyOf": schemas, "oneOf": schemas,
	"properties": named, "patternProperties": named, "$defs": named, "definitions": named, "dependentSchemas": named,
}

// Plain returns a schema in which all subschemas are objects, and reports where it had others:
// true becomes {} and false becomes {"not":{}}, which mean the same. Published clients
// refuse a whole list of tools because of one property that is true. Everything else
// stays as written; if nothing changes, raw itself is returned.
func Plain(raw []byte) (plain []byte, changed []string, err error) {
	if !bytes.Contains(raw, []byte("true")) && !bytes.Contains(raw, []byte("false")) {
		return raw, nil, nil
	}
	if doc, err := decode(raw); err == nil && !hasBoolean(doc) {
		return raw, nil, nil // checking is much faster than copying
	}
	var out bytes.Buffer
	p := plainer{from: jsontext.NewDecoder(bytes.NewReader(raw)), to: jsontext.NewEncoder(&out)}
	if p.from.PeekKind() != '{' {
		return raw, nil, nil // Compile checks the root
	}
	if err := p.schema(""); err != nil {
		return nil, nil, err
	}
	if len(p.changed) == 0 {
		return raw, nil, nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), p.changed, nil
}

// hasBoolean reports whether a decoded schema is true or false, or contains such a schema.
func hasBoolean(schema any) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		_, ok = schema.(bool)
		return ok
	}
	for name, value := range s {
		list, _ := value.([]any)
		members, _ := value.(map[string]any)
		found := false
		switch keywords[name] {
		case aSchema:
			found = hasBoolean(value)
		case schemas:
			found = slices.ContainsFunc(list, hasBoolean)
		case either:
			found = slices.ContainsFunc(list, hasBoolean) || list == nil && hasBoolean(value)
		case named:
			for _, s := range members {
				found = found || hasBoolean(s)
			}
		}
		if found {
			return true
		}
	}
	return false
}

type plainer struct {
	from    *jsontext.Decoder
	to      *jsontext.Encoder
	changed []string
}

// schema copies a value that is a schema, at a JSON Pointer.
func (p *plainer) schema(at string) error {
	switch p.from.PeekKind() {
	case '{':
		return p.each('}', at, func(name, at string) error {
			switch keywords[name] {
			case aSchema:
				return p.schema(at)
			case schemas:
				return p.list(at)
			case either:
				if p.from.PeekKind() == '[' {
					return p.list(at)
				}
				return p.schema(at)
			case named:
				if p.from.PeekKind() == '{' {
					return p.each('}', at, func(_, at string) error { return p.schema(at) })
				}
			}
			return p.copy()
		})
	case 't':
		return p.replace(at, `{}`)
	case 'f':
		return p.replace(at, `{"not":{}}`)
	}
	return p.copy()
}

func (p *plainer) list(at string) error {
	if p.from.PeekKind() != '[' {
		return p.copy()
	}
	return p.each(']', at, func(_, at string) error { return p.schema(at) })
}

// each copies the begin and end of an object or a list, and the names of an object; value
// copies its contents.
func (p *plainer) each(end jsontext.Kind, at string, value func(name, at string) error) error {
	if err := p.token(); err != nil {
		return err
	}
	for p.from.PeekKind() != end {
		name := ""
		if end == '}' {
			token, err := p.from.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
			if err := p.to.WriteToken(jsontext.String(name)); err != nil {
				return err
			}
		}
		if p.from.PeekKind() == 0 {
			_, err := p.from.ReadToken()
			return err
		}
		below := at
		if end == '}' {
			below += pointer(name)
		}
		if err := value(name, below); err != nil {
			return err
		}
	}
	return p.token()
}

func (p *plainer) token() error {
	token, err := p.from.ReadToken()
	if err != nil {
		return err
	}
	return p.to.WriteToken(token)
}

func (p *plainer) copy() error {
	value, err := p.from.ReadValue()
	if err != nil {
		return err
	}
	return p.to.WriteValue(value)
}

func (p *plainer) replace(at, with string) error {
	if _, err := p.from.ReadToken(); err != nil {
		return err
	}
	p.changed = append(p.changed, at)
	return p.to.WriteValue(jsontext.Value(with))
}
