package doors

import (
	"context"
	"net/http"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// addBodies adds a prompt with an argument, and the tool that stores resources.
func addBodies(s *service.Service) {
	s.AddPrompt(mcp.Prompt{Name: "review", Arguments: []mcp.PromptArgument{{Name: "code", Required: true}}},
		func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	service.AddTool(s, service.Tool{Name: "create_resource", InputSchema: []byte(`{"type":"object","required":["uri"],"properties":{"text":{"maxLength":3},"mimeType":{"maxLength":3}}}`)},
		testservice.Plain(nil))
}

// An error about a body names members as the body does, and its way on is about that body, at
// every door that takes one in place of params of MCP.
func TestBodies(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	socket := func(kind, data string) string {
		return overSocket("/ws", "busbar", `{"type":"`+kind+`","id":1,"data":`+data+`}`)(ctx, t, w, "")
	}
	rest := func(path, body string) string {
		resp, answer := w.try(t, request{http.MethodPost, path, body, nil}, "Bearer "+ada)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s: %d", path, body, resp.StatusCode)
		}
		return answer
	}
	graphQL := func(query string) string { return posted("/graphql", `{"query":"mutation{`+query+`}"}`)(ctx, t, w, "") }
	const (
		ofPrompt   = `"next":"GET /prompts/{name} has the arguments of a prompt"`
		ofSampling = `"next":"compare the body with POST /sampling in /openapi.json"`
		ofData     = `"next":"compare data with the body of POST /sampling in /openapi.json"`
		ofResource = `"next":"compare the body with POST /resources in /openapi.json"`
		ofInput    = `"next":"compare input with ResourceInput of the schema`
		noModel    = `[{"role":"user","content":{"type":"text","text":"x"}}]`
	)
	for _, c := range []struct{ name, answer, says, next string }{
		{"prompt, HTTP", rest("/prompts/review", `{}`), `"detail":"code is required"`, ofPrompt},
		{"prompt of a number, HTTP", rest("/prompts/review", `{"code":5}`), `"detail":"arguments of a prompt must be strings"`, ofPrompt},
		{"prompt of a list, HTTP", rest("/prompts/review", `[]`), `"detail":"the body must be a JSON object"`, ofPrompt},
		{"prompt, /ws", socket("prompt_request", `{"name":"review","arguments":{}}`), `"arguments.code is required"`, ofPrompt},
		{"prompt, GraphQL", graphQL(`executePrompt(input:{name:\"review\"}){description}`), `"arguments.code is required"`, `"next":"getPrompt has the arguments of a prompt"`},
		{"prompt of a list, GraphQL", graphQL(`executePrompt(input:{name:\"review\",arguments:[]}){description}`), `"arguments must be an object"`, `"next":"getPrompt has the arguments of a prompt"`},
		{"sampling, HTTP", rest("/sampling", `{"messages":`+noModel+`}`), `"detail":"max_tokens must be at least 1"`, ofSampling},
		{"sampling of a number, HTTP", rest("/sampling", `{"messages":[{"role":5}]}`), `"detail":"messages[0].role has a value of the wrong type"`, ofSampling},
		{"sampling of a list, HTTP", rest("/sampling", `[]`), `"detail":"the body must be a JSON object"`, ofSampling},
		{"sampling twice, HTTP", rest("/sampling", `{"max_tokens":1,"maxTokens":1}`), `"detail":"max_tokens and maxTokens are the same"`, ofSampling},
		{"sampling, /ws", socket("sampling_request", `{"messages":`+noModel+`,"max_tokens":1,"tool_choice":{"mode":"x"}}`), `"tool_choice.mode must be auto, required or none"`, ofData},
		{"no prompt, /ws", socket("prompt_request", `{"nam":"x"}`), `"data is an object with name and arguments"`, `"next":"send prompt_request with data that is an object with name and arguments"`},
		{"resource, HTTP", rest("/resources", `{"content":"x"}`), `"detail":"Invalid arguments: /uri: is required"`, ofResource},
		{"content of a resource, HTTP", rest("/resources", `{"uri":"x://y","content":"long","mime_type":"long"}`), `/content: `, ofResource},
		{"type of a resource, HTTP", rest("/resources", `{"uri":"x://y","content":"long","mime_type":"long"}`), `/mime_type: `, ofResource},
		{"resource of a list, HTTP", rest("/resources", `[]`), `"detail":"the body must be a JSON object"`, ofResource},
		{"both contents, HTTP", rest("/resources", `{"uri":"x://y","content":"x","blob":"eA=="}`), `"detail":"give content or blob, not both"`, `/openapi.json`},
		{"resource, GraphQL", graphQL(`createResource(input:{uri:\"x://y\",name:\"n\",content:\"long\"}){uri}`), `/content: `, ofInput},
	} {
		if !strings.Contains(c.answer, c.says) || !strings.Contains(c.answer, c.next) {
			t.Errorf("%s: %s", c.name, c.answer)
		}
		if strings.Contains(c.answer, "params.") || strings.Contains(c.answer, "input_schema") {
			t.Errorf("%s speaks of params, or of tools: %s", c.name, c.answer)
		}
	}
	_, err := w.grpc.GetPrompt(asAda(ctx), &gatewayv1.GetPromptRequest{Name: "review"})
	if next := metadataOf(t, err)["next"]; !strings.Contains(err.Error(), "= arguments.code is required") || next != "ListPrompts has the arguments of each prompt" {
		t.Errorf("gRPC: %v, %q", err, next)
	}
	_, err = w.grpc.GetPrompt(asAda(ctx), &gatewayv1.GetPromptRequest{Name: "review", Arguments: []byte("[]")})
	if next := metadataOf(t, err)["next"]; next != "ListPrompts has the arguments of each prompt" {
		t.Errorf("gRPC, of a list: %v, %q", err, next)
	}
	// MCP has params.
	if answer := posted("/mcp", legacyMessage("prompts/get", `"name":"review"`))(ctx, t, w, ""); !strings.Contains(answer, "params.arguments.code is required") {
		t.Errorf("MCP: %s", answer)
	}
	// Tools speak of their input, as before.
	if answer := rest("/tools/create_resource", `{}`); !strings.Contains(answer, "input_schema of a tool") {
		t.Errorf("tool: %s", answer)
	}
}

// Doors other than MCP spell the members of objects that the edge builds in one way.
func TestSpelling(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	const fails, none = `{"name":"fail","parameters":{"key":"spelling"}}`, `{"name":"nothing"}`
	post := func(path, body string) string {
		_, answer := w.post(ctx, t, path, ada, body)
		return string(answer)
	}
	for name, answer := range map[string]string{
		"HTTP":             post("/tools/fail", `{"key":"spelling"}`),
		"batch over HTTP":  post("/tools:batch", `{"calls":[`+fails+`,`+none+`]}`),
		"/ws":              overSocket("/ws", "busbar", `{"type":"tool_request","id":1,"data":`+fails+`}`)(ctx, t, w, ""),
		"batch over /ws":   overSocket("/ws", "busbar", `{"type":"batch_request","id":1,"data":{"calls":[`+none+`]}}`)(ctx, t, w, ""),
		"GraphQL":          post("/graphql", `{"query":"mutation{executeTool(input:{name:\"fail\",parameters:{key:\"spelling\"}}){is_error}}"}`),
		"batch of GraphQL": post("/graphql", `{"query":"mutation{executeTools(inputs:[{name:\"nothing\"}]){is_error}}"}`),
	} {
		if !strings.Contains(answer, `"is_error":true`) || strings.Contains(answer, "isError") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if answer := posted("/mcp", legacyMessage("tools/call", `"name":"fail","arguments":{"key":"spelling"}`))(ctx, t, w, ""); !strings.Contains(answer, `"isError":true`) || strings.Contains(answer, "is_error") {
		t.Errorf("MCP: %s", answer)
	}
}
