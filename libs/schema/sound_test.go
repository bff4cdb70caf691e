package schema

import (
	"fmt"
	"sync"
	"testing"
)

// soundSchemas have all keywords that can be judged valid without a compiler.
var soundSchemas = []string{
	`{}`,
	`{"type":"object","properties":{"a":{"type":["string","null"],"description":"d","title":"t","$comment":"c","format":"email","pattern":"^a+$","minLength":0,"maxLength":123456789},
		"b":{"type":"integer","minimum":-1.5e3,"maximum":9007199254740993,"exclusiveMinimum":-2000,"exclusiveMaximum":1e300,"default":7,"examples":[8]},"c":true,"d":false,
		"$ref":{"const":{"$ref":7}},"properties":{"enum":[{"type":"nothing"}],"deprecated":true,"readOnly":false,"writeOnly":false}},
		"required":["a","b"],"additionalProperties":{"not":{}},"minProperties":1,"maxProperties":9,"x-vendor":[{"$ref":"http://127.0.0.1:1/"}]}`,
	`{"type":"array","items":{"contentEncoding":"base64","contentMediaType":"image/png"},"prefixItems":[{}],"minItems":1,"maxItems":2,"uniqueItems":true}`,
	`{"allOf":[{"propertyNames":{"maxLength":3}}],"anyOf":[true],"oneOf":[{"unevaluatedProperties":false}],"enum":[],"required":[]}`,
	`{"$defs":{"a.b-c":{"type":"array","items":{"$ref":"#/$defs/a.b-c"}},"b":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/a.b-c"}]}},"properties":{"a":{"$ref":"#/$defs/b","description":"d"}}}`,
}

// unsoundSchemas have one invalid keyword each, or one that only a compiler can judge.
var unsoundSchemas = []string{
	`{"type":"text"}`, `{"type":[]}`, `{"type":["string","string"]}`, `{"type":["string",{}]}`, `{"type":null}`, `{"properties":[]}`, `{"properties":{"a":7}}`,
	`{"items":[{}]}`, `{"additionalProperties":null}`, `{"not":"x"}`, `{"propertyNames":1}`, `{"unevaluatedProperties":[]}`, `{"allOf":[]}`, `{"anyOf":{}}`, `{"oneOf":[7]}`, `{"prefixItems":true}`,
	`{"required":"a"}`, `{"required":["a","a"]}`, `{"required":[1]}`, `{"enum":1}`, `{"examples":{}}`, `{"title":1}`, `{"description":null}`, `{"$comment":[]}`, `{"format":{}}`,
	`{"contentEncoding":1}`, `{"contentMediaType":1}`, `{"pattern":"("}`, `{"pattern":1}`, `{"pattern":"(?=a)"}`, `{"uniqueItems":"true"}`, `{"deprecated":1}`, `{"readOnly":null}`, `{"writeOnly":[]}`,
	`{"minimum":"1"}`, `{"maximum":null}`, `{"exclusiveMinimum":true}`, `{"exclusiveMaximum":[]}`, `{"minLength":-1}`, `{"maxLength":1.5}`, `{"minItems":"1"}`, `{"maxItems":{}}`, `{"minProperties":true}`,
	`{"maxProperties":-0.5}`, `{"$ref":"#/$defs/none"}`, `{"$ref":7,"$defs":{"":{}}}`, `{"$ref":"#/$defs/a/b","$defs":{"a/b":{}}}`, `{"$ref":"#/$defs/a~0b","$defs":{"a~0b":{}}}`, `{"$ref":"#/$defs/a%b","$defs":{"a%b":{}}}`,
	`{"properties":{"a":{"$defs":{"b":{}},"$ref":"#/$defs/b"}}}`, `{"$defs":[]}`, `{"$defs":{"a":null}}`, `{"$schema":"https://example.com/dialect"}`, `{"multipleOf":0}`, `{"properties":{"a":{"items":{"not":{"type":"text"}}}}}`,
	`true`, `[]`, `{"type":"string","type":"string"}`, "{\"title\":\"\xff\"}",
}

func TestSound(t *testing.T) {
	t.Parallel()
	for _, raw := range soundSchemas {
		doc, err := decode([]byte(raw))
		if err != nil || !sound(doc.(map[string]any)) {
			t.Errorf("%s is not known to be right: %v", raw, err)
		}
		soundIsValid(t, []byte(raw))
	}
	for _, raw := range unsoundSchemas {
		if _, err := Compile([]byte(raw)); err == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
	if doc, err := decode([]byte(`{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"}`)); err != nil || sound(doc.(map[string]any)) {
		t.Errorf("another draft was judged by 2020-12: %v", err)
	}
}

// A sound schema is compiled on first use, once for many users, with the content that it had when
// it was added.
func TestCompiledWhenUsed(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"type":"object","properties":{"a":{"type":"integer"}},"description":"TestCompiledWhenUsed"}`)
	s, err := CompileInput(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] = '}'
	}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			if err := s.Validate(fmt.Appendf(nil, `{"a":%d}`, i)); err != nil {
				t.Error(err)
			}
			if err := s.Validate([]byte(`{"a":"x"}`)); err == nil {
				t.Error("a text is an integer")
			}
		})
	}
	callers.Wait()
	if !s.Has("a") || s.Has("b") {
		t.Error("its properties are others")
	}
}

// soundIsValid requires that the compiler accepts a sound schema.
func soundIsValid(t *testing.T, raw []byte) {
	t.Helper()
	doc, err := decode(raw)
	root, ok := doc.(map[string]any)
	if err != nil || !ok || !sound(root) {
		return
	}
	if _, found := hugeNumber(doc); found {
		return
	}
	if _, err := measure(doc); err != nil {
		return
	}
	for _, here := range []string{judged, trusted} {
		if _, err := validator(here, doc); err != nil {
			t.Errorf("%.200q was taken for a schema: %s: %v", raw, here, err)
		}
	}
}

func FuzzSound(f *testing.F) {
	for _, raw := range append(unsoundSchemas, soundSchemas...) {
		f.Add([]byte(raw))
	}
	f.Fuzz(soundIsValid)
}
