package terminal_test

import (
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
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
			if got := terminal.Wrap(tt.text, tt.limit); !slices.Equal(got, tt.want) {
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
			if got := terminal.SafeText(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
