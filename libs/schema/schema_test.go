package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/schema"
)

func compile(t *testing.T, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

// fastest is the time of f: the shortest of several runs if the first took longer than enough,
// because other programs can only slow it down.
func fastest(enough time.Duration, f func()) time.Duration {
	least := time.Hour
	for n := 0; n < 5 && least > enough; n++ {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}

func TestCompileAccepts(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"empty":                    `{}`,
		"draft 2020-12 named":      `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`,
		"draft 2020-12, fragment":  `{"$schema":"https://json-schema.org/draft/2020-12/schema#","type":"object"}`,
		"draft 2019-09":            `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object"}`,
		"draft 7":                  `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/a"}}}`,
		"draft 4":                  `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`,
		"reference inside":         `{"$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`,
		"reference to an anchor":   `{"$defs":{"a":{"$anchor":"x","type":"string"}},"properties":{"a":{"$ref":"#x"}}}`,
		"own id":                   `{"$id":"https://example.com/tool","$defs":{"a":{"$id":"a","type":"string"}},"properties":{"a":{"$ref":"a"}}}`,
		"recursion":                `{"$defs":{"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}`,
		"reference to itself":      `{"properties":{"next":{"$ref":"#"}}}`,
		"dynamic reference":        `{"$dynamicAnchor":"n","properties":{"next":{"$dynamicRef":"#n"}}}`,
		"unknown keywords":         `{"type":"object","x-vendor":[1,{"a":2}]}`,
		"nested 60 deep":           strings.Repeat(`{"not":`, 60) + `{}` + strings.Repeat(`}`, 60),
		"1,000 properties":         `{"properties":{` + list(1000, `"p%d":{"type":"string"}`) + `}}`,
		"numbers of ordinary size": `{"minimum":-1e308,"maximum":1.5e+300,"multipleOf":0.0001}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compile(t, raw)
		})
	}
}

// list writes a pattern n times, with commas between.
func list(n int, pattern string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(pattern, i)
	}
	return strings.Join(items, ",")
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ raw, says string }{
		"nothing":                  {``, "JSON"},
		"not JSON":                 {`{`, "JSON"},
		"two values":               {`{}{}`, "JSON"},
		"boolean":                  {`true`, "object"},
		"array":                    {`[]`, "object"},
		"unknown type":             {`{"type":"text"}`, "type"},
		"type of a wrong type":     {`{"type":7}`, "type"},
		"negative length":          {`{"minLength":-1}`, "minLength"},
		"multiple of zero":         {`{"multipleOf":0}`, "multipleOf"},
		"pattern that is none":     {`{"pattern":"("}`, "pattern"},
		"network reference":        {`{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "$defs"},
		"network reference, http":  {`{"$ref":"http://127.0.0.1:1/a.json#/x"}`, "$defs"},
		"file reference":           {`{"$ref":"file:///etc/passwd"}`, "$defs"},
		"reference beside own id":  {`{"$id":"https://example.com/tool","$ref":"other.json"}`, "$defs"},
		"unknown dialect":          {`{"$schema":"https://example.com/dialect"}`, "$defs"},
		"reference to nothing":     {`{"$ref":"#/$defs/none"}`, "none"},
		"nested 65 deep":           {strings.Repeat(`{"not":`, 65) + `{}` + strings.Repeat(`}`, 65), "deeper"},
		"nested 100,000 deep":      {strings.Repeat(`[`, 100_000), ""},
		"10,000 parts":             {`{"anyOf":[` + list(10_000, `{"const":%d}`) + `]}`, "parts"},
		"a megabyte":               {`{"description":"` + strings.Repeat("x", 1<<20) + `"}`, "bytes"},
		"huge exponent in minimum": {`{"properties":{"a/b":{"minimum":1e999999999}}}`, "/properties/a~1b/minimum"},
		"huge exponent in const":   {`{"const":1e999999}`, "/const"},
		"huge exponent in enum":    {`{"enum":[0,1e-1000000]}`, "/enum/1"},
		"huge exponent anywhere":   {`{"x-vendor":[[1E+1000]]}`, "/x-vendor/0/0"},
		"number of 2,000 digits":   {`{"maximum":` + strings.Repeat("9", 2000) + `}`, "/maximum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			took := fastest(2*time.Second, func() { _, err = schema.Compile([]byte(c.raw)) })
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			if took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestValidateNamesThePlace(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","required":["name"],"additionalProperties":false,"properties":{
		"name":{"type":"string","minLength":2},"list":{"type":"array","items":{"type":"integer","maximum":9}},
		"a/b~c":{"type":"boolean"},"o":{"type":"object","properties":{"deep":{"enum":["x","y"]}}},
		"tree":{"$ref":"#/$defs/tree"},"either":{"anyOf":[{"type":"string"},{"type":"boolean"}]}},
		"$defs":{"tree":{"type":"object","required":["v"],"properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}}}`)
	for name, c := range map[string]struct{ in, path, says string }{
		"missing":            {`{}`, "/name", "required"},
		"another type":       {`[]`, "", "object"},
		"member's type":      {`{"name":7}`, "/name", "string"},
		"too short":          {`{"name":"x"}`, "/name", "minLength"},
		"unknown member":     {`{"name":"xy","nmae":1}`, "/nmae", "not a known"},
		"in an array":        {`{"name":"xy","list":[1,2,"3"]}`, "/list/2", "integer"},
		"too large":          {`{"name":"xy","list":[10]}`, "/list/0", "maximum"},
		"name to be escaped": {`{"name":"xy","a/b~c":1}`, "/a~1b~0c", "boolean"},
		"nested":             {`{"name":"xy","o":{"deep":"z"}}`, "/o/deep", "x"},
		"recursive":          {`{"name":"xy","tree":{"v":1,"kids":[{"v":1},{"v":1,"kids":[{"v":"x"}]}]}}`, "/tree/kids/1/kids/0/v", "integer"},
		"alternatives":       {`{"name":"xy","either":7}`, "/either", "string"},
		"huge exponent":      {`{"name":"xy","list":[1,1e999999999]}`, "/list/1", "large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := s.Validate([]byte(c.in))
			var invalid *schema.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v", err)
			}
			if p := invalid.Problems[0]; p.Path != c.path || !strings.Contains(p.Message, c.says) {
				t.Errorf("got %q at %q, want %q at %q", p.Message, p.Path, c.says, c.path)
			}
			if c.path != "" && !strings.Contains(err.Error(), c.path+": ") {
				t.Errorf("text does not name the place: %v", err)
			}
		})
	}
	if err := s.Validate([]byte(`{"name":"xy","list":[1.0,9],"tree":{"v":1,"kids":[]}}`)); err != nil {
		t.Errorf("valid value refused: %v", err)
	}
	if err := s.Validate([]byte(`{"name"`)); err == nil {
		t.Error("what is not JSON is valid")
	}
	var invalid *schema.InvalidError
	if err := s.Validate([]byte(`{"name":"xy","list":[` + list(500, `"%d"`) + `]}`)); !errors.As(err, &invalid) || len(invalid.Problems) > 5 {
		t.Errorf("%d problems listed", len(invalid.Problems))
	}
}

func TestValidateKeepsPrecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema, in string
		valid      bool
	}{
		"2^53+1 is itself":            {`{"const":9007199254740993}`, `9007199254740993`, true},
		"2^53+1 is not 2^53":          {`{"const":9007199254740993}`, `9007199254740992`, false},
		"2^53+1 is over 2^53":         {`{"maximum":9007199254740992}`, `9007199254740993`, false},
		"30 digits, one off":          {`{"maximum":123456789012345678901234567890}`, `123456789012345678901234567891`, false},
		"tenth of a tenth":            {`{"multipleOf":0.1}`, `0.3`, true},
		"42.0 is an integer":          {`{"type":"integer"}`, `42.0`, true},
		"4.2e1 is an integer":         {`{"type":"integer"}`, `4.2e1`, true},
		"42.5 is none":                {`{"type":"integer"}`, `42.5`, false},
		"1e400 is a number":           {`{"type":"number","minimum":0}`, `1e400`, true},
		"true is not 1":               {`{"enum":[1]}`, `true`, false},
		"1 and 1.0 are the same item": {`{"uniqueItems":true}`, `[1,1.0]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := compile(t, c.schema).Validate([]byte(c.in)); (err == nil) != c.valid {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Such numbers are short to write but expensive to compute with: they are refused before any
// computation.
func TestValidateIsCheapForHugeNumbers(t *testing.T) {
	t.Parallel()
	many := `[` + list(2000, `1e99999%d`) + `]`
	for name, raw := range map[string]string{
		"any": `{}`, "integer": `{"type":"integer"}`, "minimum": `{"minimum":3}`, "multipleOf": `{"multipleOf":0.3}`,
		"const": `{"const":1}`, "items": `{"items":{"type":"integer","maximum":5}}`, "uniqueItems": `{"uniqueItems":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, raw)
			for _, in := range []string{`1e999999999`, `1e999999`, `-1E+1000000`, `1e-999999`, `[1e999999999]`, many, strings.Repeat("1", 100_000)} {
				var err error
				took := fastest(time.Second, func() { err = s.Validate([]byte(in)) })
				if err == nil {
					t.Errorf("%.20s accepted", in)
				}
				if took > time.Second {
					t.Errorf("%.20s took %v", in, took)
				}
			}
		})
	}
}
