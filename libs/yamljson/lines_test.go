package yamljson_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/yamljson"
)

func TestLines(t *testing.T) {
	t.Parallel()
	object, lines, err := yamljson.ObjectLines([]byte("# a comment\na: 1\nb:\n  c/d:\n    - x\n    - y\n  e: {on: 1,\n    g: 2}\n"))
	if err != nil || string(object) != `{"a":1,"b":{"c/d":["x","y"],"e":{"on":1,"g":2}}}` {
		t.Fatalf("%s, %v", object, err)
	}
	for pointer, want := range map[jsontext.Pointer]int{"": 2, "/a": 2, "/b": 3, "/b/c~1d": 4, "/b/c~1d/1": 6, "/b/e": 7, "/b/e/g": 8, "/b/e/none/at/all": 7, "/none": 2} {
		if got := lines.Of(pointer); got != want {
			t.Errorf("%s is on line %d, want %d", pointer, got, want)
		}
	}
}
