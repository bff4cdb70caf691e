package e2e

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Texts of the documents the product was asked for in.
const (
	polish  = "Model Context Protocol (MCP) to standard komunikacji pomiędzy modelami językowymi (LLM) a kontekstem zewnętrznym, umożliwiający modelom efektywne wykorzystywanie narzędzi zewnętrznych, dostęp do danych oraz wykonywanie złożonych operacji w ustrukturyzowany sposób.\n\nNiniejszy dokument definiuje format żądań i odpowiedzi protokołu MCP w wersji 1.0."
	russian = "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста."
	chinese = "Model Context Protocol (MCP) 是一個標準化的協定，用於 AI 模型與外部工具和資源之間的通訊。本文件詳細說明 MCP 協定的基礎概念、訊息格式、傳輸模式，以及在本專案中的具體實現。"
	contact = "Свяжитесь с нами по email: example@email.com или посетите наш сайт https://example.com. Вы также можете позвонить по телефону +7 (123) 456-7890."
	keyword = "MCP является стандартным протоколом для взаимодействия между LLM-моделями и приложениями, предоставляющими контекст и инструменты для этих моделей."
)

// sdkText calls the text tools with the seeds' examples. How good the answers
// are is tested in services/text; here they have crossed the bus intact.
func sdkText(t *testing.T, c *client) {
	for _, e := range []struct {
		name, tool string
		arguments  map[string]any
		// want are members of the structured content; a nil one must be there.
		want map[string]any
	}{
		{"polish", "analyzeText", map[string]any{"text": polish}, map[string]any{"statistics.sentenceCount": 2.0, "topWords": nil}},
		{"russian", "analyzeText", map[string]any{"text": russian}, map[string]any{"statistics.sentenceCount": 3.0, "statistics.wordCount": 15.0}},
		{"chinese", "analyzeText", map[string]any{"text": chinese}, map[string]any{"statistics.sentenceCount": 2.0, "topWords": nil}},
		{"polish summary", "summarizeText", map[string]any{"text": polish, "maxLength": 200}, map[string]any{"summary": nil, "length": nil, "compressionRatio": nil}},
		{"polish entities", "extractEntities", map[string]any{"text": polish}, map[string]any{"entities.technologies": nil, "entities.concepts": nil, "entities.processes": nil}},
		{"statistics", "text_processor",
			map[string]any{"operation": "statistics", "text": russian, "stat_options": []string{"chars", "words", "sentences", "readability"}},
			map[string]any{"operation": "statistics", "chars": 111.0, "words": 15.0, "sentences": 3.0, "readability.language": "ru"}},
		{"contacts", "text_processor",
			map[string]any{"operation": "extract_entities", "text": contact, "entity_types": []string{"emails", "urls", "phone_numbers"}},
			map[string]any{"emails": []any{"example@email.com"}, "urls": []any{"https://example.com"}, "phone_numbers": []any{"+7 (123) 456-7890"}}},
		{"summary", "text_processor", map[string]any{"operation": "summarize", "text": "Длинный текст, который требуется суммаризировать..."}, map[string]any{"summary": nil}},
		{"keywords", "text_processor", map[string]any{"operation": "find_keywords", "text": keyword}, map[string]any{"keywords": nil}},
		{"format", "text_processor", map[string]any{"operation": "format", "text": "  one   two \r\n"}, map[string]any{"text": "one two"}},
	} {
		t.Run(e.name, func(t *testing.T) {
			r := c.call(t, e.tool, e.arguments)
			if r.IsError {
				t.Fatalf("failed: %s", textOf(r))
			}
			structured, _ := r.StructuredContent.(map[string]any)
			for path, want := range e.want {
				got, there := member(structured, path)
				if !there || want != nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
			// Clients that read only text get the same.
			var text any
			if err := json.Unmarshal([]byte(textOf(r)), &text); err != nil || !reflect.DeepEqual(text, any(structured)) {
				t.Errorf("the text is not the structured content: %v %q", err, textOf(r))
			}
		})
	}
}
