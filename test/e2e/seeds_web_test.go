package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestSeedGraphQL sends the operations of seed 001, as they are there.
func TestSeedGraphQL(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	for name, x := range map[string]struct {
		operation string
		holds     []string
	}{
		"query": {`query {
  getTools {
    name
    description
    input_schema
  }
}`, []string{`"name":"text_processor"`, `"input_schema":{`, `"enum":["format","statistics","extract_entities","summarize","find_keywords"]`}},
		"mutation": {`mutation {
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
}`, []string{`"type":"text"`, `протоколом`, `"is_error":false`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(map[string]string{"query": x.operation})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(strings.TrimSuffix(dev.mcp, "/mcp")+"/graphql", "application/json", strings.NewReader(string(body)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(got), `"errors"`) {
				t.Fatalf("%s %v %s", resp.Status, err, got)
			}
			for _, want := range x.holds {
				if !strings.Contains(string(got), want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
		})
	}
}

// TestSeedWebSocket sends the messages of seed 001, as they are there, over one
// connection. What busbar dev does not have is refused with the seed's code.
func TestSeedWebSocket(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, strings.TrimSuffix(dev.mcp, "/mcp")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for _, x := range []struct{ message, answer, refused string }{
		{`{"type": "initialize", "id": "unique-request-id"}`, "initialize_response", ""},
		{`{
     "type": "tool_request",
     "id": "unique-request-id",
     "data": {
       "name": "text_processor",
       "parameters": {
         "operation": "summarize",
         "text": "Длинный текст для суммаризации..."
       }
     }
   }`, "tool_response", ""},
		{`{"type": "tool_request", "id": "unique-request-id", "data": {"name": "create_resource",
		   "parameters": {"uri": "example://document1", "name": "Пример документа", "text": "Это содержимое тестового документа"}}}`, "tool_response", ""},
		{`{
     "type": "resource_request",
     "id": "unique-request-id",
     "data": {
       "uri": "example://document1"
     }
   }`, "resource_response", ""},
		{`{
     "type": "prompt_request",
     "id": "unique-request-id",
     "data": {
       "name": "code_review",
       "arguments": {
         "language": "python",
         "code": "def example():\n    pass"
       }
     }
   }`, "prompt_response", ""},
		{`{
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
   }`, "", "unavailable"}, // no model is configured
	} {
		if err := c.Write(ctx, websocket.MessageText, []byte(x.message)); err != nil {
			t.Fatal(err)
		}
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Type, ID string
			Error    *struct {
				Code int
				Data struct{ Reason string }
			}
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		answered := got.Type == x.answer
		if x.refused != "" {
			answered = got.Type == "error" && got.Error != nil && got.Error.Code == -32000 && got.Error.Data.Reason == x.refused
		}
		if !answered || got.ID != "unique-request-id" {
			t.Errorf("%s\nwas answered with %s", x.message, b)
		}
	}
}
