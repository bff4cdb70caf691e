package tidy

import (
	"testing"
	"unicode/utf8"
)

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		options    []Option
		want       string
	}{
		{"default", "\ufeff  one\t two \r\n\r\n\r\n\r\nthree\u200b\u00a0 four  ", Default, "one two\n\nthree four"},
		{"polish", "  Zaz\u0307o\u0301łc\u0301  gęślą\r\njaźń ", Default, "Zażółć gęślą\njaźń"},
		{"russian", "Это   пример.\n\n\n\nКонец.\u2029Всё", Default, "Это пример.\n\nКонец.\n\nВсё"},
		{"chinese", "這是　一個\u3000標準。 ", Default, "這是 一個 標準。"},
		{"trim only", "  a  b ", []Option{Trim}, "a  b"},
		{"sentence case", "one! “two?” три! Four", []Option{SentenceCase}, "One! “Two?” Три! Four"},
		{"code stays", "def f(x):\n    if x:\n        return  1  ", Default, "def f(x):\n    if x:\n        return  1"},
		{"fenced code stays", "Run:\n```\n  a   b\n\n  c\n```\n  then   go", Default, "Run:\n```\n  a   b\n\n  c\n```\nthen go"},
		{"nested list stays", "- one  two\n  - three\n    four", Default, "- one two\n  - three\nfour"},
		{"space before marks", "Hello world ! One ,two , three .Four", Default, "Hello world! One, two, three. Four"},
		{"no space before names", "Use .NET, a :) and x := y", Default, "Use .NET, a :) and x := y"},
		{"french spaces stay", "Bonjour le monde ! Comment ça va ?", Default, "Bonjour le monde ! Comment ça va ?"},
		{"chinese marks", "你好 ， 世界 ！", Default, "你好，世界！"},
		{"sentence case in a line", "second line. third sentence? yes!", []Option{SentenceCase}, "Second line. Third sentence? Yes!"},
		{"sentence case of wrapped lines", "w domu\ni z psem. potem śpi.\nrano wstaje", []Option{SentenceCase}, "W domu\ni z psem. Potem śpi.\nRano wstaje"},
		{"sentence case and abbreviations", "to jest np. kot, т.е. zwierzę itd. i pies. iPhone też", []Option{SentenceCase}, "To jest np. kot, т.е. zwierzę itd. i pies. iPhone też"},
		{"sentence case leaves code", "def f():\n    return 1", []Option{SentenceCase}, "def f():\n    return 1"},
		{"none", " a ", nil, " a "},
		{"emoji joiner stays", "👩\u200d💻", Default, "👩\u200d💻"},
		{"line endings alone", "a\rb\r\nc", []Option{LineEndings}, "a\nb\nc"},
		{"unknown", " a ", []Option{"rot13"}, " a "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Apply(tt.text, tt.options); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzApply(f *testing.F) {
	f.Add("a\r\n\u2029 b. c")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		once := Apply(text, Default)
		if twice := Apply(once, Default); twice != once {
			t.Fatalf("not stable: %q, %q", once, twice)
		}
		Apply(text, Options)
	})
}
