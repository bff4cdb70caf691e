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
		{"greeting", "Hello world", English},
		{"names of another language", "Kraków is the second largest city in Poland.", English},
		{"polish without marks", "Instrukcja obslugi programu", Polish},
		{"french", "Le train pour Paris partira avec du retard.", "fr"},
		{"czech", "Vlak do Brna dnes bohužel pojede o dvacet minut později.", "cs"},
		{"bulgarian", "Влакът за София днес закъснява с двадесет минути.", "bg"},
		{"arabic", "يتأخر القطار اليوم.", "ar"},
		{"nothing but code", "x1 := foo42(y_2)", Unknown},
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
		{"polish city", Polish, []string{"matka", "matki", "matce", "matkę", "matek"}},
		{"polish road", Polish, []string{"droga", "drodze", "dróg", "drogami"}},
		{"polish error", Polish, []string{"błąd", "błędu", "błędzie", "błędów"}},
		{"polish verb", Polish, []string{"pracować", "pracuje", "pracował", "pracowała"}},
		{"russian mistake", Russian, []string{"ошибка", "ошибки", "ошибок", "ошибками"}},
		{"russian verb", Russian, []string{"читать", "читает", "читал", "читала"}},
		{"english verb", English, []string{"stop", "stops", "stopped", "stopping"}},
		{"english verb with e", English, []string{"cache", "caches", "cached", "caching"}},
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

// TestStemsApart: letters that only look like an ending stay.
func TestStemsApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		l    Language
		a, b string
	}{
		{English, "string", "str"}, {English, "need", "ne"}, {English, "thing", "th"}, {English, "bed", "b"},
		{Polish, "kot", "kod"}, {Polish, "praca", "prawo"}, {Russian, "память", "пам"},
	} {
		if Stem(tt.a, tt.l) == Stem(tt.b, tt.l) {
			t.Errorf("%s and %s have the stem %s", tt.a, tt.b, Stem(tt.a, tt.l))
		}
	}
}

func FuzzDetect(f *testing.F) {
	for _, s := range []string{"", "Hello 你好 Привет", "a\u0301", "\xff", "ў ї ё ы", "かな漢字"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := Detect(text)
		if len(l) < 2 || len(l) > 3 {
			t.Fatalf("language %q", l)
		}
		word := Fold(text)
		IsStopword(word, l)
		if stem := Stem(word, l); stem == "" && word != "" {
			t.Fatalf("%q has no stem in %s", word, l)
		}
	})
}
