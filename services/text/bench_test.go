package text

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/entity"
)

// prose is text of about size bytes without too much repetition.
func prose(language string, size int) string {
	vocabulary := map[string][]string{
		"en": strings.Fields("the service bus message tool of and routes calls protocol client server answer request model context a in with by reads writes large small text"),
		"pl": strings.Fields("usługa szyna wiadomość narzędzie i oraz kieruje wywołania protokół klient serwer odpowiedź żądanie model kontekst w z przez czyta pisze duży mały tekst"),
		"ru": strings.Fields("сервис шина сообщение инструмент и или направляет вызовы протокол клиент сервер ответ запрос модель контекст в с через читает пишет большой малый текст"),
		"zh": strings.Fields("服 務 訊 息 工 具 的 和 協 定 客 戶 端 伺 器 回 應 請 求 模 型 上 下 文 在 讀 寫 大 小"),
	}[language]
	space, stop := " ", ". "
	if language == "zh" {
		space, stop = "", "。"
	}
	var b strings.Builder
	seed := uint32(1)
	for n := 0; b.Len() < size-64; n++ {
		seed = seed*1664525 + 1013904223
		word := vocabulary[seed>>8%uint32(len(vocabulary))]
		switch {
		case n%13 == 0:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		case n%7 == 3 && space != "":
			fmt.Fprintf(&b, "%s%d", word, seed>>20) // new words, as real text has
		default:
			b.WriteString(word)
		}
		if n%13 == 12 {
			b.WriteString(stop)
		} else {
			b.WriteString(space)
		}
	}
	return b.String()
}

func BenchmarkTools(b *testing.B) {
	sizes := []struct {
		name  string
		bytes int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"500KB", 500_000}}
	run := func(b *testing.B, tool, text string) {
		b.Helper()
		for b.Loop() {
			var err error
			switch tool {
			case "analyzeText":
				_, err = analyze(b.Context(), nil, AnalyzeIn{Text: text})
			case "summarizeText":
				_, err = summarize(b.Context(), text, 0)
			case "extractEntities":
				_, err = entitiesBy(b.Context(), EntitiesIn{Text: text}, entity.Default())
			default:
				_, err = processor(b.Context(), nil, ProcessorIn{Operation: tool, Text: text})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	tools := []string{"analyzeText", "summarizeText", "extractEntities", "format", "statistics", "extract_entities", "summarize", "find_keywords"}
	for _, tool := range tools {
		for _, language := range []string{"en", "pl", "ru", "zh"} {
			for _, size := range sizes {
				text := prose(language, size.bytes)
				b.Run(tool+"/"+language+"/"+size.name, func(b *testing.B) { run(b, tool, text) })
			}
		}
		// Texts chosen to be hard on one step or another.
		for name, unit := range map[string]string{"capitals": "Ab ", "letters": "a", "han": "型", "full stops": "A. ", "spaces": "a.  (", "lines": "a\n", "marks": "a\u0301"} {
			text := strings.Repeat(unit, maxText/len(unit))
			b.Run(tool+"/worst/"+strings.ReplaceAll(name, " ", "-"), func(b *testing.B) { run(b, tool, text) })
		}
	}
}

// BenchmarkLibrary shows that the functions behind the tools are linear far beyond the tools'
// limit: MB/s is about the same at every size.
func BenchmarkLibrary(b *testing.B) {
	steps := map[string]func(context.Context, *Document) error{
		"read":     func(context.Context, *Document) error { return nil },
		"words":    func(ctx context.Context, d *Document) error { _, err := d.Words(ctx); return err },
		"summary":  func(ctx context.Context, d *Document) error { _, err := d.Summary(ctx, summaryLimit); return err },
		"keywords": func(ctx context.Context, d *Document) error { _, err := d.Keywords(ctx, keywordLimit); return err },
		"entities": func(ctx context.Context, d *Document) error { _, err := d.Entities(ctx); return err },
	}
	for _, step := range []string{"read", "words", "summary", "keywords", "entities"} {
		for _, language := range []string{"en", "pl", "ru", "zh"} {
			for _, size := range []struct {
				name  string
				bytes int
			}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"10MB", 10 << 20}} {
				text := prose(language, size.bytes)
				b.Run(step+"/"+language+"/"+size.name, func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					b.ReportAllocs()
					for b.Loop() {
						d, err := Read(b.Context(), text)
						if err == nil {
							err = steps[step](b.Context(), d)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
