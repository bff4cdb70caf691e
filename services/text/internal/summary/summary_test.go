package summary

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

func summarize(ctx context.Context, t *testing.T, text string, limit int) (string, error) {
	t.Helper()
	sentences := segment.Sentences(text)
	terms, err := term.Extract(t.Context(), sentences, language.Detect(text))
	if err != nil {
		t.Fatal(err)
	}
	return Summarize(ctx, text, sentences, terms, limit)
}

const (
	english = "Busbar is a message bus for tools. The weather was fine. Tools are services on the bus. Each tool of Busbar is a service. My aunt likes tea."
	russian = "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста."
	polish  = "Model Context Protocol to standard komunikacji. Protokół definiuje żądania. Kot śpi na piecu. Standard komunikacji opisuje żądania i odpowiedzi protokołu."
	chinese = "工具是可由模型調用的函數。天氣很好。資源是可被模型讀取的資料來源。模型使用工具和資源。"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"fits", " One.\n Two. ", 20, "One. Two."},
		{"english", english, 70, "Busbar is a message bus for tools. Tools are services on the bus."},
		{"russian", russian, 80, "Это пример текста для анализа. Статистика будет рассчитана для этого текста."},
		{"polish", polish, 130, "Protokół definiuje żądania. Standard komunikacji opisuje żądania i odpowiedzi protokołu."},
		{"chinese", chinese, 26, "工具是可由模型調用的函數。模型使用工具和資源。"},
		{"none fits", russian, 18, "Это пример текста…"},
		{"one long word", "абракадабра", 5, "абра…"},
		{"headings", "# Tools\n\n## Tools and services\n\nTools are services on the bus.\n\n```go\nTools(\"bus\").\n```\n`Tools/call` calls tools\n", 50, "Tools are services on the bus."},
		{"thanks", "Thanks to J. Smith for the report. The index answers 429 instead of 503. Thanks to all who tested the report.", 60, "The index answers 429 instead of 503."},
		{"chinese half", "市政府决定在河边修建一座新桥，明年春天开工，工期两年。居民担心噪音影响孩子的睡眠，请求只在白天施工。市长表示会听取大家的意见，下个月再开一次会。会上没有人反对造桥。老桥已经用了六十年，每年维修都要花很多钱。", 200, "市政府决定在河边修建一座新桥，明年春天开工，工期两年。市长表示会听取大家的意见，下个月再开一次会。"},
		{"no words", "!!! *** !!!", 5, "!!!…"},
		{"same twice", "Tools run. Tools run. The bus runs tools fast today.", 45, "Tools run. The bus runs tools fast today."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := summarize(t.Context(), t, tt.text, tt.limit)
			if err != nil || got != tt.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

func TestNeverTooLong(t *testing.T) {
	t.Parallel()
	for _, text := range []string{english, russian, polish, chinese, strings.Repeat(english+" ", 60), strings.Repeat("x", 500)} {
		for limit := 1; limit < 150; limit++ {
			got, err := summarize(t.Context(), t, text, limit)
			if n := utf8.RuneCountInString(got); err != nil || n > limit || n == 0 {
				t.Fatalf("limit %d: %d characters, %v: %q", limit, n, err, got)
			}
		}
	}
}

func TestSummarizeStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{english, strings.Repeat(english+" ", 60)} {
		if _, err := summarize(ctx, t, text, 50); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
