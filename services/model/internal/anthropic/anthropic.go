// Package anthropic samples models over Anthropic's Messages API (docs.claude.com, API
// reference, messages). Start at Provider.Sample.
package anthropic

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model/internal/api"
)

// Version is the version of the API, sent in a header.
const Version = "2023-06-01"

// Provider implements api.Provider.
type Provider struct{ api.Client }

type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      string    `json:"system,omitzero"`
	Messages    []message `json:"messages"`
	Temperature *float64  `json:"temperature,omitzero"`
	Stop        []string  `json:"stop_sequences,omitempty"`
	Tools       []tool    `json:"tools,omitempty"`
	ToolChoice  *choice   `json:"tool_choice,omitzero"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type block struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitzero"`
	Source    *source        `json:"source,omitzero"`
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
	ToolUseID string         `json:"tool_use_id,omitzero"`
	Content   []block        `json:"content,omitempty"`
	IsError   bool           `json:"is_error,omitzero"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
}

type choice struct {
	Type string `json:"type"`
}

type response struct {
	Type       string  `json:"type"`
	Model      string  `json:"model"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
}

var (
	stopReasons = map[string]string{"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence", "tool_use": "toolUse"}
	choices     = map[string]string{"auto": "auto", "required": "any", "none": "none"}
)

// Sample implements api.Provider.
func (p *Provider) Sample(ctx context.Context, model string, params *mcp.CreateMessageParams) (*service.Sampled, error) {
	in := request{Model: model, MaxTokens: params.MaxTokens, System: params.SystemPrompt, Stop: params.StopSequences}
	if t := params.Temperature; t != nil {
		limited := min(*t, 1) // the largest value of this API
		in.Temperature = &limited
	}
	for _, m := range params.Messages {
		blocks, err := blocksOf(m.Content)
		if err != nil {
			return nil, err
		}
		in.Messages = append(in.Messages, message{m.Role, blocks})
	}
	for _, t := range params.Tools {
		in.Tools = append(in.Tools, tool{t.Name, t.Description, t.InputSchema})
	}
	if mode := params.ToolChoice.Mode; mode != "" && len(in.Tools) > 0 {
		in.ToolChoice = &choice{choices[mode]}
	}
	var out response
	if err := p.Post(ctx, "/v1/messages", in, &out); err != nil {
		return nil, err
	}
	if out.Type != "message" {
		return nil, api.Malformed("it is not a message")
	}
	return out.sampled(model)
}

func blocksOf(content []mcp.SamplingBlock) ([]block, error) {
	var out []block
	for _, b := range content {
		switch b.Type {
		case "text":
			if b.Text != "" { // the API refuses an empty one
				out = append(out, block{Type: "text", Text: b.Text})
			}
		case "image":
			out = append(out, block{Type: "image", Source: &source{"base64", b.MIMEType, b.Data}})
		case "tool_use":
			out = append(out, block{Type: "tool_use", ID: b.ID, Name: b.Name, Input: b.Input})
		case "tool_result":
			inner, err := blocksOf(b.Content)
			if err != nil {
				return nil, err
			}
			if len(inner) == 0 && len(b.Structured) > 0 {
				inner = []block{{Type: "text", Text: string(b.Structured)}}
			}
			out = append(out, block{Type: "tool_result", ToolUseID: b.ToolUseID, Content: inner, IsError: b.IsError})
		default:
			return nil, api.Unfit(b.Type)
		}
	}
	return out, nil
}

func (r *response) sampled(model string) (*service.Sampled, error) {
	var blocks []mcp.SamplingBlock
	for _, b := range r.Content {
		switch b.Type {
		case "text":
			blocks = append(blocks, mcp.SamplingBlock{Type: "text", Text: b.Text})
		case "tool_use":
			if b.Input.Kind() != '{' {
				return nil, api.Malformed("the model uses a tool with arguments that are not a JSON object")
			}
			blocks = append(blocks, mcp.SamplingBlock{Type: "tool_use", ID: b.ID, Name: b.Name, Input: b.Input})
		}
		// Other blocks, such as thinking, are private to the provider.
	}
	reason, known := stopReasons[r.StopReason]
	if !known {
		reason = r.StopReason
	}
	if r.Model != "" {
		model = r.Model
	}
	return api.Answer(model, reason, blocks)
}
