package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A short schema must not become a large compiled one.
func TestShortSchemasStaySmall(t *testing.T) {
	t.Parallel()
	var leaves strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&leaves, `"%d":{},`, i)
	}
	deep := `{"properties":{` + leaves.String() + `"z":{}}}`
	for range 28 {
		deep = `{"properties":{"` + strings.Repeat("n", 1500) + `":` + deep + `}}`
	}
	for name, test := range map[string]struct{ raw, want string }{
		"a repetition":            {`{"pattern":"` + strings.Repeat("a{1000}", 300) + `"}`, "patterns of the schema are too large"},
		"nested repetitions":      {`{"patternProperties":{"((a{10}b){10}c){10}":{"pattern":"` + strings.Repeat("(?:x{30}){30}", 300) + `"}}}`, "patterns of the schema are too large"},
		"repetitions together":    {`{"allOf":[` + strings.Repeat(`{"pattern":"a{0,900}"},`, 300) + `true]}`, "patterns of the schema are too large"},
		"tables":                  {`{"pattern":"` + strings.Repeat(`\\pL`, 4000) + `"}`, "patterns of the schema are too large"},
		"a long pattern":          {`{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, "a pattern is"},
		"another draft":           {`{"$schema":"http://json-schema.org/draft-07/schema#","pattern":"` + strings.Repeat("a{1000}", 300) + `"}`, "patterns of the schema are too large"},
		"long names of many":      {deep, "paths of all parts"},
		"patterns that are usual": {`{"properties":{` + leaves.String() + `"a":{"pattern":"^[\\p{L}\\p{N} _.:/=+-]{1,1000}$"},"b":{"pattern":"^(?i)[a-z]{2}-(?:[a-z]+-)+\\d{1,2}$"}}}`, ""},
	} {
		_, err := Compile([]byte(test.raw))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// Validation with a schema whose parts each refer to one another twice ends with an error; the next
// value has the full number of steps again.
func TestReferencesEnd(t *testing.T) {
	t.Parallel()
	chain := func(use string) string {
		var defs strings.Builder
		for i := range 60 {
			fmt.Fprintf(&defs, `"a%d":%s,`, i, strings.ReplaceAll(use, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)))
		}
		return `{"properties":{"v":{"$ref":"#/$defs/a0"}},"$defs":{` + defs.String() + `"a60":false}}`
	}
	for name, raw := range map[string]string{
		"not":      chain(`{"not":{"oneOf":[NEXT,NEXT]}}`),
		"draft 7":  strings.ReplaceAll(`{"$schema":"http://json-schema.org/draft-07/schema#",`+chain(`{"format":"email","anyOf":[NEXT,NEXT]}`)[1:], "$defs", "definitions"),
		"by value": `{"properties":{"v":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`,
		"dynamic":  `{"$dynamicAnchor":"x","properties":{"v":{"allOf":[{"$dynamicRef":"#x"},{"$dynamicRef":"#x"}]}}}`,
		"2019-09":  `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"v":{"allOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			value := `{"v":1}`
			if !strings.Contains(raw, "a60") { // each level of the value is one
				value = strings.Repeat(`{"v":`, 60) + `{}` + strings.Repeat(`}`, 60)
			}
			var invalid *InvalidError
			if err := s.Validate([]byte(value)); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "too many steps") {
				t.Errorf("%.200v", err)
			}
			if err := s.Validate([]byte(`{"w":7}`)); err != nil {
				t.Errorf("another value: %v", err)
			}
		})
	}
}
