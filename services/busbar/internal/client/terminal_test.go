package client

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"fits", "one two", 10, []string{"one two"}},
		{"breaks at spaces", "one two three four", 10, []string{"one two", "three four"}},
		{"keeps line breaks", "one\n\n  two ", 10, []string{"one", "", "two"}},
		{"breaks long words", "see abcdefghijklmno now", 10, []string{"see", "abcdefghij", "klmno now"}},
		{"wide characters", "標準化的協定", 10, []string{"標準化的協", "定"}},
		{"accents take no room", "ze\u0301ze\u0301ze\u0301 abc", 10, []string{"ze\u0301ze\u0301ze\u0301 abc"}},
		{"never narrower than ten", "abcdefghijk", 1, []string{"abcdefghij", "k"}},
		{"empty", "", 10, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := wrap(tt.text, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSafeText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"plain", "zażółć 世界 🙂\n\tx", "zażółć 世界 🙂\n\tx"},
		{"escape sequence", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"bell and backspace", "a\a\b", `a\x07\x08`},
		{"delete", "a\x7f", `a\x7f`},
		{"C1", "\u009b31m", `\u009b31m`},
		{"CRLF", "a\r\nb", "a\nb"},
		{"CR overwrites", "safe\revil", `safe\x0devil`},
		{"direction", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := safeText(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

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
