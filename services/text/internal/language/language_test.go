package language

import "testing"

func TestDetect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       Language
	}{
		{"empty", "", Unknown},
		{"digits", "1234 56", Unknown},
		{"english", "The quick brown fox jumps over the lazy dog.", English},
		{"english technical", "Busbar is an MCP backend built from microservices on NATS.", English},
		{"polish", "Model Context Protocol (MCP) to standard komunikacji pomiędzy modelami językowymi (LLM) a kontekstem zewnętrznym.", Polish},
		{"polish short", "Analizuje tekst i zwraca statystyki.", Polish},
		{"russian seed", "Это пример текста для анализа. Он содержит несколько предложений.", Russian},
		{"russian with terms", "MCP (Model Context Protocol) - это протокол для стандартизации взаимодействия между LLM-моделями и приложениями.", Russian},
		{"chinese traditional", "Model Context Protocol (MCP) 是一個標準化的協定，用於 AI 模型與外部工具和資源之間的通訊。", Chinese},
		{"chinese simplified", "这是一个标准化的协议。", Chinese},
		{"japanese", "これは標準化されたプロトコルです。", "ja"},
		{"ukrainian", "Це приклад тексту для аналізу. Він містить кілька речень.", "uk"},
		{"german", "Der schnelle braune Fuchs springt über den faulen Hund und läuft dann weiter in den Wald.", "de"},
		{"spanish", "El rápido zorro marrón salta sobre el perro perezoso y luego sigue corriendo hacia el bosque.", "es"},
		{"chinese with code", "工具是可由模型調用的函數或服務。 `func main() { server := newServer(config, logger) }`", Chinese},
		{"russian with code", "Пример запроса для инструмента: `curl -X POST http://localhost/tools/text_processor`", Russian},
		{"korean", "이것은 표준 프로토콜입니다.", "ko"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Detect(tt.text); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		l     Language
		forms []string
	}{
		{"russian protocol", Russian, []string{"протокол", "протокола", "протоколом", "протоколы", "протоколов", "протоколами"}},
		{"russian model", Russian, []string{"модель", "модели", "моделей", "моделями", "моделям"}},
		{"russian instrument", Russian, []string{"инструмент", "инструменты", "инструментов"}},
		{"russian text", Russian, []string{"текст", "текста", "тексте", "тексту"}},
		{"russian interaction", Russian, []string{"взаимодействие", "взаимодействия", "взаимодействием"}},
		{"polish function", Polish, []string{"funkcja", "funkcje", "funkcji", "funkcję", "funkcjami", "funkcjach"}},
		{"polish tool", Polish, []string{"narzędzie", "narzędzia", "narzędzi"}},
		{"polish communication", Polish, []string{"komunikacja", "komunikacji", "komunikację", "komunikacją"}},
		{"polish protocol", Polish, []string{"protokół", "protokołu", "protokołem", "protokoły"}},
		{"polish request", Polish, []string{"żądanie", "żądania", "żądań", "żądaniami"}},
		{"polish answer", Polish, []string{"odpowiedź", "odpowiedzi", "odpowiedziami"}},
		{"english tool", English, []string{"tool", "tools"}},
		{"english query", English, []string{"query", "queries"}},
		{"english process", English, []string{"process", "processes"}},
		{"unknown latin", Unknown, []string{"service", "services"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, form := range tt.forms {
				if got, want := Stem(form, tt.l), Stem(tt.forms[0], tt.l); got != want {
					t.Errorf("%s: got %q, want %q", form, got, want)
				}
			}
		})
	}
}

func TestIsStopword(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word string
		l    Language
		want bool
	}{
		{"the", English, true}, {"the", Russian, true}, {"nie", Polish, true}, {"nie", English, false},
		{"еще", Russian, true}, {"это", English, true}, {"可以", Chinese, true}, {"模型", Chinese, false},
		{"nie", Unknown, true}, {"protocol", English, false},
	}
	for _, tt := range tests {
		if got := IsStopword(tt.word, tt.l); got != tt.want {
			t.Errorf("%s in %s: got %v", tt.word, tt.l, got)
		}
	}
	if got := Fold("Ещё"); got != "еще" {
		t.Errorf("Fold: got %q", got)
	}
	if got := Fold("Server’s"); got != "server" {
		t.Errorf("Fold: got %q", got)
	}
}
