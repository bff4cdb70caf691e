package text

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/text/internal/entity"
)

// Texts of the seed documents.
const (
	seedStatistics = "Пример текста для анализа. Этот текст содержит несколько предложений. Мы используем его для демонстрации функций инструмента."
	seedContacts   = "Свяжитесь с нами по email: example@email.com или посетите наш сайт https://example.com. Вы также можете позвонить по телефону +7 (123) 456-7890."
	seedKeywords   = "MCP является стандартным протоколом для взаимодействия между LLM-моделями и приложениями, предоставляющими контекст и инструменты для этих моделей."
	seedPolish     = "Model Context Protocol (MCP) to standard komunikacji pomiędzy modelami językowymi (LLM) a kontekstem zewnętrznym, umożliwiający modelom efektywne wykorzystywanie narzędzi zewnętrznych, dostęp do danych oraz wykonywanie złożonych operacji w ustrukturyzowany sposób.\n\nNiniejszy dokument definiuje format żądań i odpowiedzi protokołu MCP w wersji 1.0."
	seedChinese    = "Model Context Protocol (MCP) 是一個標準化的協定，用於 AI 模型與外部工具和資源之間的通訊。本文件詳細說明 MCP 協定的基礎概念、訊息格式、傳輸模式，以及在本專案中的具體實現。"
)

// toJSON encodes as the service does, so that absent fields show.
func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnalyze(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"english", "The protocol is an example. An example of a protocol is an example!",
			`{"statistics":{"sentenceCount":2,"wordCount":13,"averageWordLength":4.1,"averageSentenceLength":6.5,"characterCount":67},"topWords":[{"word":"example","count":3},{"word":"protocol","count":2}]}`},
		{"russian seed", "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста.",
			`{"statistics":{"sentenceCount":3,"wordCount":15,"averageWordLength":6.3,"averageSentenceLength":5,"characterCount":111},"topWords":[{"word":"текста","count":2},{"word":"пример","count":1},{"word":"анализа","count":1},{"word":"содержит","count":1},{"word":"предложений","count":1},{"word":"статистика","count":1},{"word":"рассчитана","count":1}]}`},
		{"polish seed", "Analizuje tekst i zwraca statystyki.",
			`{"statistics":{"sentenceCount":1,"wordCount":5,"averageWordLength":6.2,"averageSentenceLength":5,"characterCount":36},"topWords":[{"word":"analizuje","count":1},{"word":"tekst","count":1},{"word":"zwraca","count":1},{"word":"statystyki","count":1}]}`},
		{"chinese", "工具是函數。工具很好。",
			`{"statistics":{"sentenceCount":2,"wordCount":6,"averageWordLength":1.5,"averageSentenceLength":3,"characterCount":11},"topWords":[{"word":"工具","count":2},{"word":"函數","count":1},{"word":"好","count":1}]}`},
		{"empty", "", `{"statistics":{"sentenceCount":0,"wordCount":0,"averageWordLength":0,"averageSentenceLength":0,"characterCount":0},"topWords":[]}`},
		{"no words", "!!!",
			`{"statistics":{"sentenceCount":0,"wordCount":0,"averageWordLength":0,"averageSentenceLength":0,"characterCount":3},"topWords":[]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := analyze(t.Context(), nil, AnalyzeIn{Text: tt.text})
			if got := toJSON(t, out); err != nil || got != tt.want {
				t.Errorf("%v, got\n%s, want\n%s", err, got, tt.want)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"whole", "Tekst do podsumowania", 0, `{"summary":"Tekst do podsumowania","length":21,"compressionRatio":"100.0%"}`},
		{"polish seed", seedPolish, 0, `{"summary":"Niniejszy dokument definiuje format żądań i odpowiedzi protokołu MCP w wersji 1.0.","length":82,"compressionRatio":"23.6%"}`},
		{"chinese seed", seedChinese, 70, `{"summary":"Model Context Protocol (MCP) 是一個標準化的協定，用於 AI 模型與外部工具和資源之間的通訊。","length":61,"compressionRatio":"58.7%"}`},
		{"cut", "Длинный текст для суммаризации", 15, `{"summary":"Длинный текст…","length":14,"compressionRatio":"46.7%"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := summarize(t.Context(), tt.text, tt.limit)
			if got := toJSON(t, out); err != nil || got != tt.want {
				t.Errorf("%v, got\n%s, want\n%s", err, got, tt.want)
			}
		})
	}
}

func TestEntities(t *testing.T) {
	t.Parallel()
	out, err := entitiesBy(t.Context(), EntitiesIn{Text: seedPolish}, entity.Default())
	want := `{"entities":{"technologies":["Model Context Protocol","MCP","modelami językowymi","LLM"],"concepts":["standard","kontekstem","modelom","narzędzi","format","żądań","odpowiedzi","protokołu"],"processes":["komunikacji"]}}`
	if got := toJSON(t, out); err != nil || got != want {
		t.Errorf("%v, got\n%s, want\n%s", err, got, want)
	}
	if out, err = entitiesBy(t.Context(), EntitiesIn{Text: "nic"}, entity.Default()); err != nil || toJSON(t, out) != `{"entities":{"technologies":[],"concepts":[],"processes":[]}}` {
		t.Errorf("got %s, %v", toJSON(t, out), err)
	}
}

func TestProcessor(t *testing.T) {
	t.Parallel()
	shape, err := schema.Compile(processorOutput)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, in, want string }{
		{"statistics", `{"operation":"statistics","text":"` + seedStatistics + `","stat_options":["chars","words","sentences","paragraphs","readability"]}`,
			`{"operation":"statistics","chars":125,"words":16,"sentences":3,"paragraphs":1,"readability":{"score":45.9,"formula":"flesch-reading-ease-oborneva","level":"difficult","language":"ru"}}`},
		{"some statistics", `{"operation":"statistics","text":"!","stat_options":["words","sentences"]}`,
			`{"operation":"statistics","words":0,"sentences":0}`},
		{"all statistics", `{"operation":"statistics","text":"這是一個標準。"}`,
			`{"operation":"statistics","chars":7,"words":4,"sentences":1,"paragraphs":1,"readability":{"score":6,"formula":"characters-per-sentence","level":"very easy","language":"zh"}}`},
		{"entities", `{"operation":"extract_entities","text":"` + seedContacts + `","entity_types":["emails","urls","phone_numbers"]}`,
			`{"operation":"extract_entities","emails":["example@email.com"],"urls":["https://example.com"],"phone_numbers":["+7 (123) 456-7890"]}`},
		{"some entities", `{"operation":"extract_entities","text":"nic","entity_types":["urls"]}`,
			`{"operation":"extract_entities","urls":[]}`},
		{"summarize", `{"operation":"summarize","text":"Длинный текст, который требуется суммаризировать..."}`,
			`{"operation":"summarize","summary":"Длинный текст, который требуется суммаризировать...","length":51,"compression_ratio":"100.0%"}`},
		{"keywords", `{"operation":"find_keywords","text":"` + seedKeywords + `","max_keywords":3}`,
			`{"operation":"find_keywords","keywords":[{"word":"моделями","count":2,"score":1},{"word":"взаимодействия","count":1,"score":0.957},{"word":"протоколом","count":1,"score":0.883}]}`},
		{"no keywords", `{"operation":"find_keywords","text":"1 2 3"}`, `{"operation":"find_keywords","keywords":[]}`},
		{"format", `{"operation":"format","text":"  a \t b\r\n\r\n\r\nc "}`, `{"operation":"format","text":"a b\n\nc"}`},
		{"format trim", `{"operation":"format","text":"  a  b ","format_options":["trim"]}`, `{"operation":"format","text":"a  b"}`},
		{"format to nothing", `{"operation":"format","text":"\u200b"}`, `{"operation":"format","text":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var in ProcessorIn
			if err := json.Unmarshal([]byte(tt.in), &in); err != nil {
				t.Fatal(err)
			}
			out, err := processor(t.Context(), nil, in)
			got := toJSON(t, out)
			if err != nil || got != tt.want {
				t.Errorf("%v, got\n%s, want\n%s", err, got, tt.want)
			}
			if err := shape.Validate([]byte(got)); err != nil {
				t.Errorf("output schema: %v", err)
			}
		})
	}
}

// all calls every tool and operation with text.
func all(ctx context.Context, text string) map[string]error {
	errs := make(map[string]error)
	_, errs["analyzeText"] = analyze(ctx, nil, AnalyzeIn{Text: text})
	_, errs["summarizeText"] = summarize(ctx, text, 0)
	_, errs["extractEntities"] = entitiesBy(ctx, EntitiesIn{Text: text}, entity.Default())
	for _, op := range []string{"format", "statistics", "extract_entities", "summarize", "find_keywords"} {
		_, errs[op] = processor(ctx, nil, ProcessorIn{Operation: op, Text: text})
	}
	return errs
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"empty": {"", "text is empty"},
		"blank": {" \n\t\u3000", "text is empty"},
		"long":  {strings.Repeat("a", maxText+1), "text is too long: 524289 bytes"},
	} {
		for tool, err := range all(t.Context(), tt.text) {
			if counts := tool == "analyzeText" && name != "long"; counts && err == nil {
				continue // an empty text has counts, too: zero
			}
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%s, %s: got %v", name, tool, err)
			}
		}
	}
	if _, err := summarize(t.Context(), "a", -1); err == nil {
		t.Error("negative length was taken")
	}
	if _, err := processor(t.Context(), nil, ProcessorIn{Operation: "find_keywords", Text: "a", MaxKeywords: -1}); err == nil {
		t.Error("negative number was taken")
	}
	if _, err := processor(t.Context(), nil, ProcessorIn{Operation: "rot13", Text: "a"}); err == nil || !strings.Contains(err.Error(), `unknown operation "rot13"`) {
		t.Errorf("got %v", err)
	}
}

func TestStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := all(ctx, seedContacts)
	delete(errs, "format") // it ends before it can be cancelled
	for tool, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", tool, err)
		}
	}
}

func TestOnTheBus(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	servicetest.Join(t, conn, servicetest.Build(t, New, Env{}))
	caller := bustest.Caller(t, conn)
	for name, tt := range map[string]struct{ arguments, want string }{
		"analyzeText":     {`{"text":"One two."}`, `"structuredContent":{"statistics":{"sentenceCount":1,"wordCount":2`},
		"summarizeText":   {`{"text":"One two.","maxLength":5}`, `"structuredContent":{"summary":"One…","length":4,`},
		"extractEntities": {`{"text":"JSON"}`, `"structuredContent":{"entities":{"technologies":["JSON"]`},
		"text_processor":  {`{"operation":"format","text":""}`, `"isError":true`},
	} {
		frame, err := caller.Call(t.Context(), "text", &busv1.Request{Method: mcp.MethodToolsCall, Name: name, Arguments: []byte(tt.arguments)}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(frame.GetResult().GetJson()); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestSameEveryTime(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(seedPolish+"\n\n"+seedKeywords+" "+seedChinese+"\n", 3)
	var first []string
	for range 5 {
		var outs []string
		a, err1 := analyze(t.Context(), nil, AnalyzeIn{Text: text})
		e, err2 := entitiesBy(t.Context(), EntitiesIn{Text: text}, entity.Default())
		k, err3 := processor(t.Context(), nil, ProcessorIn{Operation: "find_keywords", Text: text, MaxKeywords: 100})
		s, err4 := summarize(t.Context(), text, 300)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		outs = append(outs, toJSON(t, a), toJSON(t, e), toJSON(t, k), toJSON(t, s))
		if utf8.RuneCountInString(s.Summary) > 300 {
			t.Errorf("summary is too long: %d", s.Length)
		}
		if first == nil {
			first = outs
		} else if !slices.Equal(first, outs) {
			t.Fatalf("differs:\n%s\n%s", first, outs)
		}
	}
}
