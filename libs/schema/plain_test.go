package schema_test

import (
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/libs/schema"
)

func TestB1Plain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw, want string
		changed   []string
	}{
		"a property":          {`{"type":"object","properties":{"a":true,"b":{"type":"string"}}}`, `{"type":"object","properties":{"a":{},"b":{"type":"string"}}}`, []string{"/properties/a"}},
		"one that is refused": {`{"properties":{"a/b":false}}`, `{"properties":{"a/b":{"not":{}}}}`, []string{"/properties/a~1b"}},
		"deep": {`{"$defs":{"x":{"items":true}},"anyOf":[{"properties":{"n":true}},true],"prefixItems":[false],"items":[true],"not":{"if":true}}`,
			`{"$defs":{"x":{"items":{}}},"anyOf":[{"properties":{"n":{}}},{}],"prefixItems":[{"not":{}}],"items":[{}],"not":{"if":{}}}`,
			[]string{"/$defs/x/items", "/anyOf/properties/n", "/anyOf", "/prefixItems", "/items", "/not/if"}},
		"what is no schema": {`{"default":true,"const":false,"enum":[true],"uniqueItems":true,"additionalProperties":false,"unevaluatedProperties":false,"properties":{"properties":{"default":{"properties":{"a":true}}}},"x":{"items":true}}`, "", nil},
		"numbers stay":      {`{"properties":{"a":true,"b":{"maximum":1.0e2,"const":9007199254740993}}}`, `{"properties":{"a":{},"b":{"maximum":1.0e2,"const":9007199254740993}}}`, []string{"/properties/a"}},
		"nothing to do":     {`{ "type": "object" }`, "", nil},
		"odd":               {`{"properties":true,"allOf":false,"items":true}`, `{"properties":true,"allOf":false,"items":{}}`, []string{"/items"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.want == "" {
				c.want = c.raw
			}
			got, changed, err := schema.Plain([]byte(c.raw))
			if err != nil || string(got) != c.want || !slices.Equal(changed, c.changed) {
				t.Errorf("%s\nwant %s\n%q, %v", got, c.want, changed, err)
			}
		})
	}
	for _, raw := range []string{`{"properties":{"a":true}`, `{"a":true,}`, `{"properties":{"a":true,"a":true}}`} {
		if got, _, err := schema.Plain([]byte(raw)); err == nil {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

// FuzzPlain: the result is plain, and accepts the same values as the schema.
func FuzzPlain(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":true,"b":{"items":false}}}`), []byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		before, err := schema.Compile(raw)
		if err != nil {
			return
		}
		plain, _, err := schema.Plain(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if _, again, err := schema.Plain(plain); err != nil || len(again) > 0 {
			t.Fatalf("%s became %s: %q %v", raw, plain, again, err)
		}
		after, err := schema.Compile(plain)
		if err != nil {
			t.Fatalf("%s became %s: %v", raw, plain, err)
		}
		if one, two := before.Validate(value), after.Validate(value); (one == nil) != (two == nil) {
			t.Fatalf("%s became %s: %v, %v", raw, plain, one, two)
		}
	})
}
