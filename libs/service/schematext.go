package service

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
)

// plain encodes a schema as clients accept it. The library writes the same, except for subschemas
// that are true or false, but takes five times as long: it encodes each part separately, and every
// enclosing part parses and copies it again.
func plain(s *jsonschema.Schema) ([]byte, error) { return json.Marshal(s, asSchemas) }

var asSchemas = json.JoinOptions(plainly, jsonv1.OmitEmptyWithLegacySemantics(true), json.WithMarshalers(json.JoinMarshalers(
	json.MarshalToFunc(writeSchema), json.MarshalToFunc(writeProperties))))

// keywordsOf has a schema's keywords in the library's order. The keywords that the library stores
// in another form come first.
type keywordsOf struct {
	Type       any         `json:"type,omitempty"`
	Properties *properties `json:"properties,omitempty"`
	Items      any         `json:"items,omitempty"`
	*withoutMethods
}

type (
	withoutMethods jsonschema.Schema
	properties     jsonschema.Schema
)

// noValue is the schema that false stands for.
var noValue = &jsonschema.Schema{Not: anything}

func writeSchema(to *jsontext.Encoder, s *jsonschema.Schema) error {
	if to.StackPointer().LastToken() == "additionalProperties" {
		if all := reflect.DeepEqual(s, anything); all || reflect.DeepEqual(s, noValue) {
			return to.WriteToken(jsontext.Bool(all))
		}
	}
	return writeObject(to, s)
}

func writeObject(to *jsontext.Encoder, s *jsonschema.Schema) error {
	k := keywordsOf{withoutMethods: (*withoutMethods)(s)}
	if s.Types != nil {
		k.Type = s.Types
	} else if s.Type != "" {
		k.Type = s.Type
	}
	if s.Items != nil {
		k.Items = s.Items
	}
	if s.Properties != nil {
		k.Properties = (*properties)(s)
	}
	return json.MarshalEncode(to, &k)
}

// writeProperties writes properties in the order of the fields. A property is always an object,
// even if its name is a keyword.
func writeProperties(to *jsontext.Encoder, of *properties) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, name := range of.PropertyOrder {
		if p := of.Properties[name]; p != nil {
			if err := to.WriteToken(jsontext.String(name)); err != nil {
				return err
			}
			if err := writeObject(to, p); err != nil {
				return err
			}
		}
	}
	return to.WriteToken(jsontext.EndObject)
}
