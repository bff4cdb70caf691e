package segment

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSentences(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"no words", "*** — !!!", nil},
		{"english", "One. Two! Three?", []string{"One.", "Two!", "Three?"}},
		{"english title", "Dr. Smith met Mrs. Jones. They talked.", []string{"Dr. Smith met Mrs. Jones.", "They talked."}},
		{"english e.g.", "Use a bus, e.g. NATS, or i.e. Kafka. Done.", []string{"Use a bus, e.g. NATS, or i.e. Kafka.", "Done."}},
		{"english initials", "J. R. R. Tolkien wrote it. J.K. Rowling did not.", []string{"J. R. R. Tolkien wrote it.", "J.K. Rowling did not."}},
		{"english etc ends", "Apples, pears, etc. The end.", []string{"Apples, pears, etc.", "The end."}},
		{"decimal and domain", "Pi is 3.14 at example.com today. Yes.", []string{"Pi is 3.14 at example.com today.", "Yes."}},
		{"polish", "Narzędzia, np. NATS, tzw. Szyna itd. są proste. Ul. Długa 5 jest w m.in. Krakowie.", []string{"Narzędzia, np. NATS, tzw. Szyna itd. są proste.", "Ul. Długa 5 jest w m.in. Krakowie."}},
		{"polish itd ends", "Koty, psy itd. Następne zdanie.", []string{"Koty, psy itd.", "Następne zdanie."}},
		{"russian seed", "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста.", []string{"Это пример текста для анализа.", "Он содержит несколько предложений.", "Статистика будет рассчитана для этого текста."}},
		{"russian city and year", "Он жил в г. Москва до 2020 г. Потом уехал, т.е. Москву покинул.", []string{"Он жил в г. Москва до 2020 г.", "Потом уехал, т.е. Москву покинул."}},
		{"russian and so on", "Кошки, собаки и т.д. Новое предложение. А.С. Пушкин писал.", []string{"Кошки, собаки и т.д.", "Новое предложение.", "А.С. Пушкин писал."}},
		{"russian ellipsis", "Он ушёл… Потом вернулся… и остался.", []string{"Он ушёл…", "Потом вернулся… и остался."}},
		{"chinese", "這是一個標準化的協定。它很簡單！對嗎？對。", []string{"這是一個標準化的協定。", "它很簡單！", "對嗎？", "對。"}},
		{"markdown", "# Title\n\n- first item\n- second item\n\n1. Start here. Then stop.\n", []string{"Title", "first item", "second item", "1. Start here.", "Then stop."}},
		{"wrapped by hand", "This is a line that was wrapped by hand at some\ncolumn. And this is next.\r\nShort", []string{"This is a line that was wrapped by hand at some\ncolumn.", "And this is next.", "Short"}},
		{"word list", "apples\npears\nplums", []string{"apples", "pears", "plums"}},
		{"speech", "\"Why?\" asked Ann. \"Stop!\" Then she left.", []string{"\"Why?\" asked Ann.", "\"Stop!\"", "Then she left."}},
		{"turns", "– Dokąd? – zapytał Jan. – Do domu. – Już?", []string{"– Dokąd? – zapytał Jan.", "– Do domu.", "– Już?"}},
		{"dash in a sentence", "Москва — столица. Вот — Анна.", []string{"Москва — столица.", "Вот — Анна."}},
		{"chinese speech", "他问：“去吗？”我说：“去。”“好！”她喊道。", []string{"他问：“去吗？”", "我说：“去。”", "“好！”她喊道。"}},
		{"dates at the start", "В 1998 г. Тверь выросла. W 2005 r. Polska też.", []string{"В 1998 г. Тверь выросла.", "W 2005 r. Polska też."}},
		{"spaced abbreviation that ends", "Хлеб, сыр и т. п. Потом домой.", []string{"Хлеб, сыр и т. п.", "Потом домой."}},
		{"quote", "He said “Stop.” Then he left.", []string{"He said “Stop.”", "Then he left."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range Sentences(tt.text) {
				got = append(got, s.Text)
				if tt.text[s.Start:s.Start+len(s.Text)] != s.Text {
					t.Errorf("offset %d does not point at %q", s.Start, s.Text)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"english", "Don't stop — it's 3.14!", []string{"Don't", "stop", "it's", "3.14"}},
		{"polish", "Zażółć gęślą jaźń.", []string{"Zażółć", "gęślą", "jaźń"}},
		{"russian hyphen", "между LLM-моделями", []string{"между", "LLM", "моделями"}},
		{"chinese", "AI 模型。", []string{"AI", "模", "型"}},
		{"nothing", " \t🙂 … ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for w := range Words(tt.text) {
				got = append(got, w.Text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParagraphs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       int
	}{
		{"empty", " \n \n", 0},
		{"one line", "one", 1},
		{"two lines", "one\ntwo", 1},
		{"blank line", "one\n \t\r\n\r\ntwo\n", 2},
		{"separator", "one\u2029two", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Paragraphs(tt.text); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"fits", "one two", 7, "one two"},
		{"word boundary", "one two three", 9, "one two…"},
		{"punctuation", "one, two three", 5, "one…"},
		{"long word", "Dampfschifffahrt", 5, "Damp…"},
		{"grapheme", "e\u0301e\u0301e\u0301", 4, "e\u0301…"},
		{"only ellipsis", "word", 1, "…"},
		{"zero", "word", 0, ""},
		{"chinese", "這是一個標準", 4, "這是一…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Cut(tt.text, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzWords: the words and what lies between them make up the text.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "Don't — 3.14!", "AI 模型。", "e\u0301\u200d", "\xff a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for w := range Words(text) {
			if w.Start < end || w.Text == "" || text[w.Start:w.End()] != w.Text {
				t.Fatalf("bad word %q at %d after %d", w.Text, w.Start, end)
			}
			if HasWord(text[end:w.Start]) {
				t.Fatalf("%q was passed over", text[end:w.Start])
			}
			end = w.End()
		}
		if HasWord(text[end:]) {
			t.Fatalf("%q was left", text[end:])
		}
	})
}

func FuzzSentences(f *testing.F) {
	for _, s := range []string{"", "Dr. A… B.", "1. a\n2. b", "г. М\r\n\r\n…", "。。", "x.\n\n—", "\n.\n…  A", "– A? – b. – C", "他。“好。”", "\"a?\" b c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		end := 0
		for _, s := range Sentences(text) {
			if s.Start < end || s.Text != text[s.Start:s.Start+len(s.Text)] || !HasWord(s.Text) {
				t.Fatalf("bad sentence %q at %d after %d", s.Text, s.Start, end)
			}
			if strings.TrimSpace(s.Text) != s.Text {
				t.Fatalf("sentence %q is not trimmed", s.Text)
			}
			end = s.Start + len(s.Text)
		}
		if letters(text) != inSentences(text) {
			t.Fatalf("%d letters, and %d in sentences", letters(text), inSentences(text))
		}
		for n := range 5 {
			if got := utf8.RuneCountInString(Cut(text, n)); got > n {
				t.Fatalf("Cut to %d gave %d", n, got)
			}
		}
	})
}

// letters counts letters and digits, which no sentence may lose.
func letters(text string) int {
	n := 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			n++
		}
	}
	return n
}

func inSentences(text string) int {
	n := 0
	for _, s := range Sentences(text) {
		n += letters(s.Text)
	}
	return n
}

// Texts designed to make look-ahead or look-back quadratic.
func BenchmarkSentences(b *testing.B) {
	const size = 1 << 20
	for name, unit := range map[string]string{
		"spaces": " ", "open": "(", "close": ")", "dots": ".", "dot space": ". ", "digits": "1", "newlines": "\n",
		"ellipsis": "… ", "comma": ", ", "marks": "\u0301", "prose": "Simple prose goes here, e.g. this. ", "zh": "這是一個標準。",
	} {
		text := "a." + strings.Repeat(unit, size/len(unit))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Sentences(text)
				for range Words(text) {
				}
				Cut(text, 200)
			}
		})
	}
}
