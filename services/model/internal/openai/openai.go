// Package openai samples models over the chat completions API of OpenAI and many
// compatible servers (platform.openai.com/docs/api-reference/chat). Start at Provider.Sample.
package openai

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model/internal/api"
)

// Provider implements api.Provider.
type Provider struct {
	api.Client
	// NewLimit sends the limit of tokens as max_completion_tokens, which OpenAI now
	// requires, instead of max_tokens, which compatible servers know.
	NewLimit bool
}

type request struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	MaxTokens   int       `json:"max_tokens,omitzero"`
	NewLimit    int       `json:"max_completion_tokens,omitzero"`
	Temperature *float64  `json:"temperature,omitzero"`
	Stop        []string  `json:"stop,omitempty"`
	Tools       []tool    `json:"tools,omitempty"`
	ToolChoice  string    `json:"tool_choice,omitzero"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string or parts; nil for an assistant that only uses tools.
	Content    any    `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitzero"`
}

type part struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitzero"`
	Image *image `json:"image_url,omitzero"`
	Audio *audio `json:"input_audio,omitzero"`
}

type image struct {
	URL string `json:"url"`
}

type audio struct {
	Data   []byte `json:"data"`
	Format string `json:"format"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		// Arguments is a JSON object as text.
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type response struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   *string `json:"content"`
			Refusal   *string `json:"refusal"`
			ToolCalls []call  `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

// stopReasons translates the API's stop reasons to the protocol's. The API does not
// distinguish a stop sequence from the end.
var stopReasons = map[string]string{"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse", "function_call": "toolUse", "content_filter": "contentFilter"}

// Sample implements api.Provider.
func (p *Provider) Sample(ctx context.Context, model string, params *mcp.CreateMessageParams) (*service.Sampled, error) {
	in := request{Model: model, Temperature: params.Temperature, Stop: params.StopSequences}
	if p.NewLimit {
		in.NewLimit = params.MaxTokens
	} else {
		in.MaxTokens = params.MaxTokens
	}
	if params.SystemPrompt != "" {
		in.Messages = append(in.Messages, message{Role: "system", Content: params.SystemPrompt})
	}
	for _, m := range params.Messages {
		all, err := messages(m)
		if err != nil {
			return nil, err
		}
		in.Messages = append(in.Messages, all...)
	}
	for _, t := range params.Tools {
		in.Tools = append(in.Tools, tool{"function", function{t.Name, t.Description, t.InputSchema}})
	}
	if len(in.Tools) > 0 {
		in.ToolChoice = params.ToolChoice.Mode // the same words
	}
	var out response
	if err := p.Post(ctx, "/chat/completions", in, &out); err != nil {
		return nil, err
	}
	if len(out.Choices) == 0 {
		return nil, api.Malformed("it has no choices")
	}
	return out.sampled(model)
}

// messages converts one message: each result of a tool becomes a message of its own.
func messages(m mcp.SamplingMessage) ([]message, error) {
	var results []message
	var parts []part
	var calls []call
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			parts = append(parts, part{Type: "text", Text: b.Text})
		case "image":
			parts = append(parts, part{Type: "image_url", Image: &image{"data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)}})
		case "audio":
			format := map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}[b.MIMEType]
			if format == "" {
				return nil, api.Unfit(b.MIMEType)
			}
			parts = append(parts, part{Type: "input_audio", Audio: &audio{b.Data, format}})
		case "tool_use":
			c := call{ID: b.ID, Type: "function"}
			c.Function.Name, c.Function.Arguments = b.Name, string(b.Input)
			calls = append(calls, c)
		case "tool_result":
			text, err := result(b)
			if err != nil {
				return nil, err
			}
			results = append(results, message{Role: "tool", Content: text, ToolCallID: b.ToolUseID})
		}
	}
	if results != nil {
		return results, nil
	}
	out := message{Role: m.Role, ToolCalls: calls}
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		out.Content = parts[0].Text // every server knows this form
	case len(parts) > 0:
		out.Content = parts
	}
	return []message{out}, nil
}

// result returns a tool's result as text, the only form that the API has.
func result(b mcp.SamplingBlock) (string, error) {
	var texts []string
	if b.IsError {
		texts = append(texts, "The tool failed.")
	}
	for _, c := range b.Content {
		if c.Type != "text" {
			return "", api.Unfit(c.Type + " in results of tools")
		}
		texts = append(texts, c.Text)
	}
	if len(b.Content) == 0 && len(b.Structured) > 0 {
		texts = append(texts, string(b.Structured))
	}
	return strings.Join(texts, "\n"), nil
}

func (r *response) sampled(model string) (*service.Sampled, error) {
	first := r.Choices[0]
	var blocks []mcp.SamplingBlock
	if c := first.Message.Content; c != nil && *c != "" {
		blocks = append(blocks, mcp.SamplingBlock{Type: "text", Text: *c})
	}
	reason, known := stopReasons[first.FinishReason]
	if !known {
		reason = first.FinishReason
	}
	if s := first.Message.Refusal; s != nil && *s != "" {
		blocks, reason = append(blocks, mcp.SamplingBlock{Type: "text", Text: *s}), "refusal"
	}
	for _, c := range first.Message.ToolCalls {
		input := jsontext.Value(c.Function.Arguments)
		if len(input) == 0 {
			input = jsontext.Value("{}")
		}
		if !input.IsValid() || input.Kind() != '{' {
			return nil, api.Malformed("the model uses a tool with arguments that are not a JSON object")
		}
		blocks = append(blocks, mcp.SamplingBlock{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: input})
	}
	if r.Model != "" {
		model = r.Model
	}
	return api.Answer(model, reason, blocks)
}
