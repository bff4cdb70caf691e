package seeds

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// seed001 are the requests of seed 001 over plain HTTP, in their order: what one
// makes another reads.
var seed001 = []struct {
	name, method, path, body string
	status                   int
	want                     string
}{
	{"GET tools", "GET", "/tools", "", 200, `{"tools": [{"name": "text_processor", "description": "…", "input_schema": {
    "type": "object",
    "properties": {
      "operation": {"type": "string", "enum": ["format", "statistics", "extract_entities", "summarize", "find_keywords"]},
      "text": {"type": "string"}
    },
    "required": ["operation", "text"]
  }}]}`},
	{"GET tools name", "GET", "/tools/text_processor", "", 200, `{"name": "text_processor", "description": "…", "input_schema": {"required": ["operation", "text"]}}`},
	{"POST tools name", "POST", "/tools/text_processor", `{
           "operation": "statistics",
           "text": "Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста.",
           "stat_options": ["chars", "words", "sentences", "readability"]
         }`, 200, `{"content": [{"type": "text"}], "structured_content": {"chars": 111, "words": 15, "sentences": 3, "readability": "…"}, "is_error": false}`},
	{"POST resources", "POST", "/resources", `{
           "uri": "example://document1",
           "name": "Пример документа",
           "description": "Документ для тестирования API ресурсов",
           "mime_type": "text/plain",
           "content": "Это содержимое тестового документа"
         }`, 201, `{"uri": "example://document1", "name": "Пример документа", "description": "Документ для тестирования API ресурсов", "mimeType": "text/plain"}`},
	{"POST resources again", "POST", "/resources", `{"uri": "example://document1", "name": "x", "content": "y"}`, 409, `{"detail": "…already…"}`},
	{"GET resources", "GET", "/resources", "", 200, `{"resources": [{
  "uri": "example://document1",
  "name": "Пример документа",
  "description": "Документ для тестирования API ресурсов",
  "mimeType": "text/plain"
}]}`},
	{"GET resources uri", "GET", "/resources/example:%2F%2Fdocument1", "", 200, `{
  "uri": "example://document1",
  "name": "Пример документа",
  "description": "Документ для тестирования API ресурсов",
  "mimeType": "text/plain",
  "contents": [{"uri": "example://document1", "text": "Это содержимое тестового документа"}]
}`},
	{"GET resources uri as it stands", "GET", "/resources/example://document1", "", 200, `{"uri": "example://document1", "name": "Пример документа", "mimeType": "text/plain"}`},
	{"GET resources of a service", "GET", "/resources/weather:%2F%2Flogs", "", 200,
		`{"uri": "weather://logs", "name": "Weather Service Logs", "description": "Application logs for the weather service", "mimeType": "text/plain", "contents": [{"text": "…"}]}`},
	{"GET prompts", "GET", "/prompts", "", 200, `{"prompts": [{"name": "code_review", "arguments": [{"name": "code", "required": true}]}]}`},
	{"GET prompts name", "GET", "/prompts/code_review", "", 200, `{"name": "code_review", "arguments": [{"name": "code"}, {"name": "language"}]}`},
	{"POST prompts name", "POST", "/prompts/code_review", `{
           "language": "python",
           "code": "def factorial(n):\n    if n <= 1:\n        return 1\n    return n * factorial(n-1)"
         }`, 200, `{"messages": [{"role": "user", "content": {"type": "text", "text": "…def factorial(n):\n    if n <= 1:\n…"}}]}`},
	{"POST sampling", "POST", "/sampling", `{
           "messages": [
             {
               "role": "user",
               "content": {"type": "text", "text": "Что такое MCP?"}
             }
           ],
           "max_tokens": 100,
           "temperature": 0.7
         }`, 200, `{"role": "assistant", "content": {"type": "text", "text": "…Что такое MCP?…100 tokens, 0.7"}, "model": "m", "stop_reason": "endTurn"}`},
	{"statistics", "POST", "/tools/text_processor", `{
           "operation": "statistics",
           "text": "Пример текста для анализа. Этот текст содержит несколько предложений. Мы используем его для демонстрации функций инструмента.",
           "stat_options": ["chars", "words", "sentences", "paragraphs", "readability"]
         }`, 200, `{"structured_content": {"chars": 125, "words": 16, "sentences": 3, "paragraphs": 1, "readability": "…"}, "is_error": false}`},
	{"extract entities", "POST", "/tools/text_processor", `{
           "operation": "extract_entities",
           "text": "Свяжитесь с нами по email: example@email.com или посетите наш сайт https://example.com. Вы также можете позвонить по телефону +7 (123) 456-7890.",
           "entity_types": ["emails", "urls", "phone_numbers"]
         }`, 200, `{"structured_content": {"emails": ["example@email.com"], "urls": ["https://example.com"], "phone_numbers": ["+7 (123) 456-7890"]}, "is_error": false}`},
	{"summarize", "POST", "/tools/text_processor", `{
           "operation": "summarize",
           "text": "Длинный текст, который требуется суммаризировать..."
         }`, 200, `{"structured_content": {"summary": "Длинный текст, который требуется суммаризировать..."}, "is_error": false}`},
	{"400", "POST", "/tools/text_processor", `{"operation": "no such", "text": "x"}`, 400, `{"status": 400, "detail": "…operation…"}`},
	{"400 missing", "POST", "/prompts/code_review", `{}`, 400, `{"status": 400, "detail": "…code…"}`},
	{"404 tool", "POST", "/tools/nope", `{}`, 404, `{"status": 404, "detail": "Unknown tool: nope"}`},
	{"404 resource", "GET", "/resources/example:%2F%2Fnope", "", 404, `{"status": 404}`},
	{"404 prompt", "GET", "/prompts/nope", "", 404, `{"status": 404}`},
	{"front page", "GET", "/", "", 200, ""},
	{"version", "GET", "/openapi.json", "", 200, `{"info": {"version": "1.0.0"}, "paths": {"/tools/{name}": {}, "/resources/{uri}": {}, "/prompts/{name}": {}, "/sampling": {}}}`},
}

func TestSeed001(t *testing.T) {
	t.Parallel()
	base := started(t, dev).http
	for _, r := range seed001 {
		t.Run(r.name, func(t *testing.T) {
			status, got := call(t, base, r.method, r.path, r.body)
			if status != r.status {
				t.Errorf("status %d, want %d: %s", status, r.status, got)
			}
			if r.want != "" { // otherwise a page
				checkHolds(t, got, r.want)
			}
		})
	}
	t.Run("GraphQL", func(t *testing.T) {
		for _, r := range seed001GraphQL {
			t.Run(r.name, func(t *testing.T) {
				body, err := json.Marshal(map[string]string{"query": r.operation})
				if err != nil {
					t.Fatal(err)
				}
				status, got := call(t, base, http.MethodPost, "/graphql", string(body))
				if status != http.StatusOK || strings.Contains(string(got), `"errors"`) {
					t.Errorf("%d %s", status, got)
				}
				checkHolds(t, got, r.want)
			})
		}
	})
	t.Run("WebSocket", func(t *testing.T) { webSocket(t, base) })
}

// seed001GraphQL are its operations.
var seed001GraphQL = []struct{ name, operation, want string }{
	{"getTools", `query {
  getTools {
    name
    description
    input_schema
  }
}`, `{"data": {"getTools": [{"name": "text_processor", "description": "…", "input_schema": {"required": ["operation", "text"]}}]}}`},
	{"getTool", `{ getTool(name: "text_processor") { name } }`, `{"data": {"getTool": {"name": "text_processor"}}}`},
	{"getResources", `{ getResources { uri name description mimeType } }`,
		`{"data": {"getResources": [{"uri": "example://document1", "name": "Пример документа", "description": "Документ для тестирования API ресурсов", "mimeType": "text/plain"}]}}`},
	{"getResource", `{ getResource(uri: "example://document1") { uri name description mime_type contents { text } } }`,
		`{"data": {"getResource": {"uri": "example://document1", "name": "Пример документа", "description": "Документ для тестирования API ресурсов", "mime_type": "text/plain",
  "contents": [{"text": "Это содержимое тестового документа"}]}}}`},
	{"getPrompts", `{ getPrompts { name } }`, `{"data": {"getPrompts": [{"name": "code_review"}, {"name": "weather_analysis"}]}}`},
	{"getPrompt", `{ getPrompt(name: "code_review") { name arguments { name required } } }`, `{"data": {"getPrompt": {"arguments": [{"name": "code", "required": true}]}}}`},
	{"executeTool", `mutation {
  executeTool(input: {
    name: "text_processor",
    parameters: {
      operation: "find_keywords",
      text: "MCP является стандартным протоколом для взаимодействия между LLM-моделями и приложениями, предоставляющими контекст и инструменты для этих моделей."
    }
  }) {
    content {
      type
      text
    }
    is_error
  }
}`, `{"data": {"executeTool": {"content": [{"type": "text", "text": "…протокол…"}], "is_error": false}}}`},
	{"executePrompt", `mutation { executePrompt(input: {name: "code_review", arguments: {code: "x = 1"}}) { messages { role content { type text } } } }`,
		`{"data": {"executePrompt": {"messages": [{"role": "user", "content": {"type": "text", "text": "…x = 1…"}}]}}}`},
	{"createResource", `mutation { createResource(input: {uri: "example://document2", name: "Второй документ", content: "Текст", mime_type: "text/plain"}) { uri name mimeType } }`,
		`{"data": {"createResource": {"uri": "example://document2", "name": "Второй документ", "mimeType": "text/plain"}}}`},
}

// seed001Socket are its messages, over one connection.
var seed001Socket = []struct{ name, message, want string }{
	{"initialize", `{"type": "initialize", "id": "unique-request-id"}`, `{"type": "initialize_response", "data": {"api_version": "1.0.0"}}`},
	{"tool", `{
     "type": "tool_request",
     "id": "unique-request-id",
     "data": {
       "name": "text_processor",
       "parameters": {
         "operation": "summarize",
         "text": "Длинный текст для суммаризации..."
       }
     }
   }`, `{"type": "tool_response", "data": {"content": [{"type": "text", "text": "…Длинный текст для суммаризации...…"}]}}`},
	{"resource", `{
     "type": "resource_request",
     "id": "unique-request-id",
     "data": {
       "uri": "example://document1"
     }
   }`, `{"type": "resource_response", "data": {"contents": [{"uri": "example://document1", "text": "Это содержимое тестового документа"}]}}`},
	{"prompt", `{
     "type": "prompt_request",
     "id": "unique-request-id",
     "data": {
       "name": "code_review",
       "arguments": {
         "language": "python",
         "code": "def example():\n    pass"
       }
     }
   }`, `{"type": "prompt_response", "data": {"messages": [{"role": "user", "content": {"text": "…def example():\n    pass…"}}]}}`},
	{"sampling", `{
     "type": "sampling_request",
     "id": "unique-request-id",
     "data": {
       "messages": [
         {
           "role": "user",
           "content": {"type": "text", "text": "Что такое MCP?"}
         }
       ],
       "max_tokens": 100,
       "temperature": 0.7
     }
   }`, `{"type": "sampling_response", "data": {"role": "assistant", "content": {"type": "text", "text": "…Что такое MCP?…"}, "stop_reason": "endTurn"}}`},
	{"-32000", `{"type": "tool_request", "id": "unique-request-id", "data": {"name": "nope"}}`, `{"type": "error", "error": {"code": -32000, "message": "…"}}`},
	{"-32601", `{"type": "nonsense", "id": "unique-request-id"}`, `{"type": "error", "error": {"code": -32601, "message": "…"}}`},
}

func webSocket(t *testing.T, base string) {
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	c, _, err := websocket.Dial(ctx, base+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for _, r := range seed001Socket {
		t.Run(r.name, func(t *testing.T) {
			var got []byte
			bustest.Eventually(t, "NATS is heard", func() bool {
				if err := c.Write(ctx, websocket.MessageText, []byte(r.message)); err != nil {
					t.Fatal(err)
				}
				var err error
				if _, got, err = c.Read(ctx); err != nil {
					t.Fatal(err)
				}
				return !bustest.StoodStill(string(got))
			})
			checkHolds(t, got, `{"id": "unique-request-id"}`)
			checkHolds(t, got, r.want)
		})
	}
}

// Without a setting there is no model, and the caller is told which variables to set.
func TestSeed001WithoutModel(t *testing.T) {
	t.Parallel()
	status, got := call(t, started(t, bare).http, http.MethodPost, "/sampling", `{"messages": [{"role": "user", "content": {"type": "text", "text": "Что такое MCP?"}}], "max_tokens": 100}`)
	if status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	checkHolds(t, got, `{"detail": "…BUSBAR_MODEL_PROVIDER…"}`)
}
