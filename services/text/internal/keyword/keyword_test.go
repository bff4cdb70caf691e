package keyword

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

func find(t *testing.T, text string, n int) []Keyword {
	t.Helper()
	terms, err := term.Extract(t.Context(), segment.Sentences(text), language.Detect(text))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Find(t.Context(), terms, n)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		n          int
		want       []string // among the first n, in any order
		first      string
	}{
		{"russian seed", "MCP является стандартным протоколом для взаимодействия между LLM-моделями и приложениями, предоставляющими контекст и инструменты для этих моделей.", 5,
			[]string{"MCP", "протоколом", "моделями"}, "моделями"},
		{"polish", "Model Context Protocol (MCP) to standard komunikacji pomiędzy modelami językowymi (LLM) a kontekstem zewnętrznym, umożliwiający modelom efektywne wykorzystywanie narzędzi zewnętrznych.", 4,
			[]string{"model"}, "model"},
		{"chinese", "工具是可由 AI 模型調用的函數或服務。資源是可被模型讀取的資料來源。提示是模型的提示模板。", 3, []string{"模型"}, "模型"},
		{"english", "Busbar routes tool calls. A tool is a service. Services answer tool calls over NATS.", 3, []string{"tool", "calls"}, "tool"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := find(t, tt.text, tt.n)
			var words []string
			for _, k := range found {
				words = append(words, k.Word)
			}
			for _, w := range tt.want {
				if !slices.Contains(words, w) {
					t.Errorf("%q is missing from %v", w, found)
				}
			}
			if words[0] != tt.first || found[0].Score != 1 {
				t.Errorf("first is %v", found)
			}
			if again := find(t, tt.text, tt.n); !slices.Equal(found, again) {
				t.Errorf("second run differs: %v, %v", found, again)
			}
		})
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	if found := find(t, "12 34", 5); found == nil || len(found) != 0 {
		t.Errorf("got %#v, want an empty list", found)
	}
}

func TestFindStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, []term.Term{{Form: "a", Key: "a"}}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
