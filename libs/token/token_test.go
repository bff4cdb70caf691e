package token_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/token"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0123456789abcdef":          "0123456789abcdef",
		" 0123456789abcdef0123\r\n": "0123456789abcdef0123",
		"short":                     "one word", "": "one word",
		"two words of text": "one word", "0123456789abcdef\n0123456789abcdef": "one word",
	} {
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := token.Read(name)
		if err != nil && (!strings.Contains(err.Error(), want) || text != "" && strings.Contains(err.Error(), text)) || err == nil && string(got) != want {
			t.Errorf("%q: %q %v, want %s", text, got, err, want)
		}
	}
	if _, err := token.Read("/nowhere"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	own := token.Token("0123456789abcdef")
	for _, c := range []struct {
		sent   []string
		admits bool
	}{
		{[]string{"Bearer 0123456789abcdef"}, true}, {[]string{"Bearer 0123456789abcde"}, false}, {[]string{"Bearer 0123456789abcdef "}, false},
		{[]string{"Basic 0123456789abcdef"}, false}, {nil, false}, {[]string{"Bearer "}, false},
		{[]string{"Bearer 0123456789abcdef", "Bearer 0123456789abcdef"}, false}, // ambiguous
	} {
		shown, ok := token.Shown(http.Header{"Authorization": c.sent})
		if ok = ok && own.Admits(shown); ok != c.admits {
			t.Errorf("%q: %t", c.sent, ok)
		}
	}
	if token.Token("").Admits("") {
		t.Error("no token admits")
	}
}
