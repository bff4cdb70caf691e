package client

import (
	"slices"
	"testing"
)

func TestParameters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schema string
		want         []parameter
	}{
		{"none", `{"type":"object"}`, nil},
		{"order of the schema", `{"properties":{"z":{"type":"number"},"a":{"type":"string"}},"required":["a"]}`, []parameter{{name: "z", kind: "number"}, {name: "a", kind: "string", required: true}}},
		{"choices", `{"properties":{"n":{"type":"string","enum":["asc","desc"],"description":"Order."}}}`, []parameter{{name: "n", kind: "asc|desc", description: "Order."}}},
		{"many choices", `{"properties":{"n":{"type":"string","enum":["one","two","three","four","five","six"],"description":"What.","default":"six"}}}`,
			[]parameter{{name: "n", kind: "string", description: "What. (one, two, three, four, five, six) (default \"six\")"}}},
		{"many choices without a type", `{"properties":{"n":{"enum":[1000000,2000000,3000000,null]}}}`, []parameter{{name: "n", kind: "enum", description: "(1000000, 2000000, 3000000, null)"}}},
		{"many choices of an array", `{"properties":{"n":{"type":"array","items":{"type":"string","enum":["one","two","three","four","five","six"]}}}}`,
			[]parameter{{name: "n", kind: "string[]", description: "(one, two, three, four, five, six)"}}},
		{"long word", `{"properties":{"n":{"type":["string","integer","boolean","null"]}}}`, []parameter{{name: "n", kind: "string|integer|boolean|null"}}},
		{"default", `{"properties":{"n":{"type":"integer","description":"How many.","default":5}}}`, []parameter{{name: "n", kind: "integer", description: "How many. (default 5)"}}},
		{"nested arrays", `{"properties":{"n":{"type":"array","items":{"type":"array","items":{"enum":["a"]}}}}}`, []parameter{{name: "n", kind: "a[][]"}}},
		{"reference", `{"properties":{"n":{"$ref":"#/$defs/n"}}}`, []parameter{{name: "n", kind: "any"}}},
		{"of another shape", `{"properties":[]}`, nil},
		{"boolean schema", `true`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := parameters([]byte(tt.schema)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1536: "1.5 KiB", 5 << 20: "5.0 MiB"} {
		if got := byteSize(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
