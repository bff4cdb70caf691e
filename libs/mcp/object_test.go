package mcp_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		`{}`: true, " {\"a\":{\"x\":1}}\n": true, `{"a":[{"x":1}]}`: true,
		``: false, `[]`: false, `1`: false, `"{}"`: false, `{`: false, `{}{}`: false, `{} x`: false, `{"a":1,"a":2}`: false,
		`{"x":1}`: false, `{"\u0078":1}`: false, `{"a":1,"y":{}}`: false,
	} {
		if err := mcp.Object([]byte(in), mcp.Limits{}, "x", "y"); (err == nil) != want {
			t.Errorf("%s: %v", in, err)
		}
	}
	if mcp.Object([]byte(`{"x":1}`), mcp.Limits{Bytes: 6}) == nil {
		t.Error("longer than the limit")
	}
}
