package mediatype_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mediatype"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"main.rs": "text/x-rust", "src/a.b/main.rs": "text/x-rust", "index.html": "text/html; charset=utf-8", "a": "", "": "", "rs": "", "a.none-such": "",
	} {
		if got := mediatype.Of(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
