package plain_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"plain text stays", "a\tb\nzażółć 工具 😀", "a\tb\nzażółć 工具 😀"},
		{"CRLF stays, a lone CR does not", "a\r\nb\rc", "a\r\nb\\u000dc"},
		{"a terminal's escapes are shown", "\x1b[31mred\x07\u009b", `\u001b[31mred\u0007\u009b`},
		{"what reorders text is shown", "a\u202eb\u2066c\u200f", `a\u202eb\u2066c\u200f`},
		{"what cannot be seen is shown", "a\u200bb\ufeff\U000e0041", `a\u200bb\ufeff\U000e0041`},
		{"joiners of scripts and emoji stay", "👩\u200d💻 نمی\u200cخواهم", "👩\u200d💻 نمی\u200cخواهم"},
		{"invalid UTF-8 is replaced", "a\xff\xc3", "a\ufffd\ufffd"},
		{"NUL is shown", "\x00", `\u0000`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := plain.Escape(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	if got := plain.Text("zażółć", 4); got != "zaż\n[truncated: 4 of 10 bytes]" {
		t.Errorf("text %q", got)
	}
	if got := plain.Text("zażółć", 3); got != "za\n[truncated: 2 of 10 bytes]" {
		t.Errorf("cut inside a character: %q", got)
	}
	if got := plain.Line("a\nb\r\nc\td", 100); got != "a b c d" {
		t.Errorf("line %q", got)
	}
	if got := plain.Line("aaaa", 3); got != "aaa…" {
		t.Errorf("clipped line %q", got)
	}
	b := plain.Budget(10)
	if got := b.Text("12345678", 100); got != "12345678" {
		t.Errorf("within the budget: %q", got)
	}
	if got := b.Text("12345678", 100); got != "12\n[truncated: 2 of 8 bytes]" {
		t.Errorf("beyond it: %q", got)
	}
	if got := b.Text("x", 100); got != "\n[truncated: 0 of 1 bytes]" {
		t.Errorf("after it: %q", got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b\u202e\xff\r\n", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		for _, out := range []string{plain.Escape(s), plain.Text(s, n), plain.Line(s, n)} {
			if !utf8.ValidString(out) {
				t.Fatalf("not UTF-8: %q", out)
			}
			for _, r := range strings.ReplaceAll(out, "\r\n", "\n") {
				if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
					t.Fatalf("%U is left in %q", r, out)
				}
			}
		}
		if kept := plain.Cut(s, n); len(kept) > max(n, 0) || !strings.HasPrefix(s, kept) {
			t.Fatalf("cut to %d: %q", n, kept)
		}
	})
}
