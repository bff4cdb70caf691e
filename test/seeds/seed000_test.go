package seeds

import (
	"net/http"
	"testing"
)

// envelopes are the requests of seed 000. Each is one of its "Parametry", in the
// request that it gives the form of.
var envelopes = []struct {
	name, request string
	status        int
	want          string
}{
	{"request", `{
  "version": "1.0",
  "action": {
    "name": "nazwaAkcji",
    "parameters": {
      "param1": "wartość1",
      "param2": "wartość2"
    }
  }
}`, 404, `{"version": "1.0", "status": "error", "error": "Unknown tool: nazwaAkcji"}`},
	{"version is required", `{"action": {"name": "analyzeText", "parameters": {"text": "Tekst do analizy"}}}`, 400, `{"version": "1.0", "status": "error", "error": "…version…"}`},
	{"another version", `{"version": "2.0", "action": {"name": "analyzeText", "parameters": {"text": "Tekst do analizy"}}}`, 400, `{"status": "error", "error": "…version…\"1.0\"…"}`},
	{"action is required", `{"version": "1.0"}`, 400, `{"status": "error", "error": "…action…"}`},
	{"name is required", `{"version": "1.0", "action": {"parameters": {}}}`, 400, `{"status": "error", "error": "…name…"}`},
	{"parameters are optional", `{"version": "1.0", "action": {"name": "list_prompts"}}`, 200, `{"version": "1.0", "status": "success", "result": {"prompts": "…"}}`},
	{"parameters are validated", `{"version": "1.0", "action": {"name": "analyzeText", "parameters": {}}}`, 400, `{"version": "1.0", "status": "error", "error": "…text…required…"}`},
	{"analyzeText", `{"version": "1.0", "action": {"name": "analyzeText", "parameters": {
  "text": "Tekst do analizy"
}}}`, 200, `{"version": "1.0", "status": "success", "result": {
  "statistics": {"sentenceCount": 1, "wordCount": 3, "averageWordLength": 4.7, "averageSentenceLength": 3},
  "topWords": [{"word": "tekst", "count": 1}]
}}`},
	{"summarizeText", `{"version": "1.0", "action": {"name": "summarizeText", "parameters": {
  "text": "Tekst do podsumowania",
  "maxLength": 200
}}}`, 200, `{"version": "1.0", "status": "success", "result": {"summary": "Tekst do podsumowania", "length": 21, "compressionRatio": "100.0%"}}`},
	{"extractEntities", `{"version": "1.0", "action": {"name": "extractEntities", "parameters": {
  "text": "Tekst do analizy"
}}}`, 200, `{"version": "1.0", "status": "success", "result": {"entities": {"technologies": [], "concepts": "…", "processes": "…"}}}`},
	{"searchRepositories", `{"version": "1.0", "action": {"name": "searchRepositories", "parameters": {
  "query": "Zapytanie wyszukiwania",
  "perPage": 5
}}}`, 200, `{"version": "1.0", "status": "success", "result": {
  "totalCount": 42,
  "items": [{"name": "repo-name", "fullName": "owner/repo-name", "description": "Opis repozytorium", "url": "https://github.com/owner/repo-name", "stars": 123}]
}}`},
	{"generatePlan", `{"version": "1.0", "action": {"name": "generatePlan", "parameters": {
  "task": "Zadanie do zaplanowania",
  "requirements": ["Wymaganie 1", "Wymaganie 2"]
}}}`, 200, `{"version": "1.0", "status": "success", "result": {"plan": [
  {"id": 1, "action": "…", "description": "…"}, {"id": 2, "action": "…", "description": "…"}, {"description": "…Wymaganie 1…"}, {"description": "…Wymaganie 2…"}
]}}`},
	{"many at once", `[{"version": "1.0", "action": {"name": "analyzeText", "parameters": {"text": "Tekst do analizy"}}}, {"version": "1.0", "action": {"name": "nazwaAkcji"}}]`, 200,
		`[{"status": "success", "result": {"statistics": {"wordCount": 3}}}, {"status": "error", "error": "Unknown tool: nazwaAkcji"}]`},
}

func TestSeed000(t *testing.T) {
	t.Parallel()
	base := started(t, dev).http
	for _, r := range envelopes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			status, got := call(t, base, http.MethodPost, "/v1", r.request)
			if status != r.status {
				t.Errorf("status %d, want %d: %s", status, r.status, got)
			}
			checkHolds(t, got, r.want)
		})
	}
	t.Run("standard tools with their metadata", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"analyzeText", "summarizeText", "extractEntities", "searchRepositories", "generatePlan"} {
			status, got := call(t, base, http.MethodGet, "/tools/"+name, "")
			if status != http.StatusOK {
				t.Errorf("%s: %d", name, status)
			}
			checkHolds(t, got, `{"name": "`+name+`", "description": "…", "input_schema": {"type": "object", "properties": {}, "required": "…"}, "output_schema": {"type": "object"}}`)
		}
	})
}
