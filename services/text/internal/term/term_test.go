package term

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

func extract(t *testing.T, text string) []Term {
	t.Helper()
	terms, err := Extract(t.Context(), segment.Sentences(text), language.Detect(text))
	if err != nil {
		t.Fatal(err)
	}
	return terms
}

func TestTop(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []Count
	}{
		{"empty", "", nil},
		{"only stop words", "The and of.", nil},
		{"english", "The protocol is an example. An Example of a protocol. Example!", []Count{{"example", 3}, {"protocol", 2}}},
		{"names", "We ask Kowalski. Node.js is what Kowalski uses, and Node.js is fine.", []Count{{"Kowalski", 2}, {"Node.js", 2}}},
		{"words that only open sentences", "Bridges are long. Bridges are high.", []Count{{"bridges", 2}, {"high", 1}}},
		{"abbreviations", "Bus, e.g. a bus, is a bus.", []Count{{"bus", 3}}},
		{"acronym", "MCP is simple. MCP is it.", []Count{{"MCP", 2}, {"simple", 1}}},
		{"mixed case", "MCP is simple. mcp is it.", []Count{{"mcp", 2}, {"simple", 1}}},
		{"russian", "Это пример текста для анализа. Пример текста.", []Count{{"пример", 2}, {"текста", 2}, {"анализа", 1}}},
		{"polish", "Analizuje tekst i zwraca statystyki. Tekst się liczy.", []Count{{"tekst", 2}, {"analizuje", 1}}},
		{"chinese", "工具是函數。資源是資料來源。工具和資源都可用。", []Count{{"工具", 2}, {"資源", 2}}},
		{"chinese maximal", "人工智能改变世界，人工智能很强。", []Count{{"人工智能", 2}, {"改变", 1}}},
		{"chinese nothing repeats", "標準化協定", []Count{{"標準化", 1}, {"協定", 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Top(extract(t, tt.text), max(2, len(tt.want)))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	terms := extract(t, "Это протокол между LLM-моделями. Для этих моделей.")
	want := []Term{
		{Surface: "протокол", Form: "протокол", Key: "протокол"},
		{Surface: "LLM", Form: "llm", Key: "llm", Named: true},
		{Surface: "моделями", Form: "моделями", Key: "модел"},
		{Surface: "моделей", Form: "моделей", Key: "модел", Sentence: 1},
	}
	if !slices.Equal(terms, want) {
		t.Errorf("got %v", terms)
	}
}

func TestExtractStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Extract(ctx, segment.Sentences("One. Two."), language.English); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
