package han_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/han"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, run, want string }{
		{"nothing", "", ""},
		{"one character", "我", "我"},
		{"simplified", "我们在北京学习汉语", "我们 在 北京 学习 汉语"},
		{"traditional", "資料庫的效能取決於索引", "資料庫 的 效 能 取決於 索引"},
		{"function characters within words", "他的目的是世界和平", "他 的 目的 是 世界 和平"},
		{"overlap", "研究生命的起源", "研究 生命 的 起源"},
		{"long word", "人工智能和大语言模型", "人工智能 和 大语言模型"},
		{"numerals", "三千二百人", "三千二百 人"},
		{"name", "记者采访了梁晓芳", "记者 采访 了 梁晓芳"},
		{"unknown characters stay apart", "魑魅", "魑 魅"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(han.Cut(tt.run, nil), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	runs := []string{"魑魅很多", "大家都怕魑魅", "因为大家都怕"}
	learnt, err := han.Learn(t.Context(), runs)
	if err != nil {
		t.Fatal(err)
	}
	if learnt["魑魅"] != 2 || learnt["大家"] != 0 {
		t.Errorf("learnt %v", learnt)
	}
	if got := han.Cut(runs[1], learnt); !slices.Contains(got, "魑魅") {
		t.Errorf("got %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := han.Learn(ctx, runs); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestVariants: the same sentence in both kinds of characters is cut alike.
func TestVariants(t *testing.T) {
	t.Parallel()
	lengths := func(run string) []int {
		var n []int
		for _, w := range han.Cut(run, nil) {
			n = append(n, utf8.RuneCountInString(w))
		}
		return n
	}
	a, b := lengths("系统会自动更新数据库并通知用户"), lengths("系統會自動更新數據庫並通知用戶")
	if !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{"", "我们在北京", "三千二百人", "王小明", "\xff我", "a我b", "資料庫", "\U00020000\U00020001"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, more string) {
		if !utf8.ValidString(text) || !utf8.ValidString(more) {
			t.Skip()
		}
		learnt, err := han.Learn(t.Context(), []string{text, more, text})
		if err != nil {
			t.Fatal(err)
		}
		words := han.Cut(text, learnt)
		if got := strings.Join(words, ""); got != text {
			t.Fatalf("the words make up %q, not %q", got, text)
		}
		if slices.Contains(words, "") {
			t.Fatalf("an empty word in %q", words)
		}
		if !slices.Equal(words, han.Cut(text, learnt)) {
			t.Fatal("differs the second time")
		}
		for w := range learnt {
			if strings.ContainsFunc(w, unicode.IsSpace) && !strings.ContainsFunc(text+more, unicode.IsSpace) {
				t.Fatalf("learnt %q from nowhere", w)
			}
		}
	})
}

func BenchmarkCut(b *testing.B) {
	run := strings.Repeat("研究人员昨天在北京公布了新的数据库系统", 100)
	b.SetBytes(int64(len(run)))
	for b.Loop() {
		han.Cut(run, nil)
	}
}

// BenchmarkWorst has only prefixes of long words.
func BenchmarkWorst(b *testing.B) {
	run := strings.Repeat("中华人民共和", 300)
	b.SetBytes(int64(len(run)))
	for b.Loop() {
		han.Cut(run, nil)
	}
}
