package entity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

func TestExtract(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text                        string
		technologies, concepts, processes []string
	}{
		{"empty", "", nil, nil, nil},
		{"polish seed", "Model Context Protocol (MCP) to standard komunikacji pomiędzy modelami językowymi (LLM) a kontekstem zewnętrznym, umożliwiający modelom wykorzystywanie narzędzi.",
			[]string{"Model Context Protocol", "MCP", "modelami językowymi", "LLM"}, []string{"standard", "kontekstem", "modelom", "narzędzi"}, []string{"komunikacji"}},
		{"polish result", "Narzędzia, Funkcje i Komunikacja. Te narzędzia!", nil, []string{"Narzędzia", "Funkcje"}, []string{"Komunikacja"}},
		{"russian seed", "MCP (Model Context Protocol) - это протокол для стандартизации взаимодействия между LLM-моделями и приложениями. Протокол прост.",
			[]string{"MCP", "Model Context Protocol", "LLM"}, []string{"протокол", "моделями", "приложениями"}, []string{"стандартизации", "взаимодействия"}},
		{"chinese", "Model Context Protocol (MCP) 是一個標準化的協定，用於 AI 模型與外部工具和資源之間的通訊。",
			[]string{"Model Context Protocol", "MCP", "AI"}, []string{"標準", "協定", "模型", "工具", "資源"}, []string{"通訊"}},
		{"chinese simplified", "人工智能模型调用工具。", []string{"人工智能"}, []string{"模型", "工具"}, nil},
		{"english", "We use Docker Compose, PostgreSQL and C++ for data processing. The Acme Cloud Broker speaks UTF-8 and TCP/IP.",
			[]string{"Docker Compose", "PostgreSQL", "C++", "Acme Cloud Broker", "UTF-8", "TCP/IP"}, nil, []string{"data processing"}},
		{"sentence start", "The Server runs. Using Visual Studio Code helps.", []string{"Visual Studio Code"}, []string{"Server"}, nil},
		{"exact names", "Go home. We go home. We like Go and Rust.", []string{"Go", "Rust"}, nil, nil},
		{"ignored", "The USA and the EU like New York. OK!", nil, nil, nil},
		{"shouting", "PLEASE DO NOT RUN THIS NOW", nil, nil, nil},
		{"title case", "How To Write A Very Good Program", nil, nil, nil},
		{"camel case", "OpenTelemetry and FooBar, not analyzeText or McDonald.", []string{"OpenTelemetry", "FooBar"}, nil, nil},
		{"people and places", "Mayor Helen Ward met Tom Reyes in Upper Northfield. Пётр Ильич Громов уехал.", nil, nil, nil},
		{"an animal", "A python escaped. Keepers found it in a van.", nil, nil, nil},
		{"an animal and a language", "He fed the python. We use Python daily.", []string{"python"}, nil, nil},
		{"a language that opens", "Python is slow at this.", []string{"Python"}, nil, nil},
		{"an animal that opens", "Python połknął kozę na oczach turystów.", nil, nil, nil},
		{"a Polish form of a common word", "Backend piszemy w Ruście od roku.", []string{"Rust"}, nil, nil},
		{"two everyday names", "I know python and java.", []string{"python", "java"}, nil, nil},
		{"everyday words", "The client likes the library.", nil, nil, nil},
		{"everyday words in technical company", "The client of the PostgreSQL library.", []string{"PostgreSQL"}, []string{"client", "library"}, nil},
		{"latin name in another script", "Мы используем Fancy Thing для этого.", []string{"Fancy Thing"}, nil, nil},
		{"units", "It takes 30 MB at 2 GHz.", nil, nil, nil},
		{"roman", "Jan III and the IV part.", nil, nil, nil},
		{"polish cases", "Wdrażamy Ansiblem i Terraformem, piszemy w Javie.", []string{"Ansible", "Terraform", "Java"}, nil, nil},
		{"opens a sentence", "React and Vue are what we use. Go home.", []string{"React", "Vue"}, nil, nil},
		{"labels and status", "Ticket FR-77 and NFR-2: 400 Bad Request.", nil, nil, nil},
		{"addresses", "See https://kubernetes.io/docs or jan@redis.io.", nil, nil, nil},
		{"once", "GraphQL, graphql, GRAPHQL; JSON, JSON.", []string{"GraphQL", "JSON"}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Extract(t.Context(), segment.Sentences(tt.text), language.Detect(tt.text), Default())
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range []struct {
				name      string
				got, want []string
			}{{"technologies", got.Technologies, tt.technologies}, {"concepts", got.Concepts, tt.concepts}, {"processes", got.Processes, tt.processes}} {
				if list.got == nil || !slices.Equal(list.got, list.want) {
					t.Errorf("%s: got %q, want %q", list.name, list.got, list.want)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, err string
		size            int
	}{
		{"empty", "# nothing\n\n", "", 0},
		{"two entities", "technology\t*\tFoo|Foos;Bar\n", "", 2},
		{"everyday and head", "concept\ten?\tagent\nhead\ten\tbroker\n", "", 2},
		{"fields", "technology\tFoo\n", "line 1: the line has 2 fields", 0},
		{"category", "#\nthing\t*\tFoo\n", `line 2: unknown category "thing"`, 0},
		{"language", "concept\tde\tFoo\n", `unknown language "de"`, 0},
		{"no words", "concept\ten\t+\n", `"+" has no words`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, err := Parse(strings.NewReader(tt.file))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || g.Len() != tt.size {
				t.Errorf("got %v, %v", g, err)
			}
		})
	}
}

func TestExtractStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Extract(ctx, segment.Sentences("One."), language.Detect("One."), Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{"Model Context Protocol (MCP)", "C++ C# .NET", "UTF-8/TCP-IP", "人工智能AI模型", "Go. Go Go Go"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Extract(t.Context(), segment.Sentences(text), language.Detect(text), Default())
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]string{got.Technologies, got.Concepts, got.Processes} {
			if list == nil {
				t.Fatal("nil list")
			}
			for i, s := range list {
				if s == "" || slices.Contains(list[:i], s) {
					t.Fatalf("%q is empty or repeated", s)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "technology\t*\tFoo|Foos;Bar", "concept\ten?\ta b\n\n#", "head\t!\t.NET", "x\t\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		g, err := Parse(strings.NewReader(file))
		if err != nil {
			return
		}
		// Every accepted name can be searched.
		if _, err := Extract(t.Context(), segment.Sentences(file+". The agent of it."), language.Detect(file+". The agent of it."), g); err != nil {
			t.Fatal(err)
		}
	})
}
