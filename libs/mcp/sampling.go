package mcp

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// CreateMessageParams are the params of sampling/createMessage, as the holder of the model
// receives them (2026-07-28, client/sampling; the same in 2025-11-25).
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	ModelPreferences ModelPreferences  `json:"modelPreferences,omitzero"`
	SystemPrompt     string            `json:"systemPrompt,omitzero"`
	// MaxTokens limits the model's answer; required.
	MaxTokens     int        `json:"maxTokens"`
	Temperature   *float64   `json:"temperature,omitzero"`
	StopSequences []string   `json:"stopSequences,omitempty"`
	Tools         []Tool     `json:"tools,omitempty"`
	ToolChoice    ToolChoice `json:"toolChoice,omitzero"`
}

// ModelPreferences say which model the caller prefers. They are not binding.
type ModelPreferences struct {
	// Hints are names or parts of names; the first that matches a model counts.
	Hints []struct {
		Name string `json:"name,omitzero"`
	} `json:"hints,omitempty"`
	// Priorities are from 0 to 1; nil means none.
	CostPriority         *float64 `json:"costPriority,omitzero"`
	SpeedPriority        *float64 `json:"speedPriority,omitzero"`
	IntelligencePriority *float64 `json:"intelligencePriority,omitzero"`
}

// ToolChoice says how the model uses tools.
type ToolChoice struct {
	// Mode is "auto" (also if empty), "required" or "none".
	Mode string `json:"mode,omitzero"`
}

// SamplingMessage is a message of a conversation with a model.
type SamplingMessage struct {
	// Role is "user" or "assistant".
	Role    string         `json:"role"`
	Content SamplingBlocks `json:"content"`
}

// SamplingBlocks is one block, or an array of them.
type SamplingBlocks []SamplingBlock

// SamplingBlock is one part of a message; which fields count depends on Type.
type SamplingBlock struct {
	// Type is "text", "image", "audio", "tool_use" or "tool_result".
	Type string `json:"type"`
	Text string `json:"text,omitzero"`
	// Data is the image or recording.
	Data     []byte `json:"data,omitzero"`
	MIMEType string `json:"mimeType,omitzero"`
	// ID, Name and Input describe the use of a tool; Input is a JSON object.
	ID    string         `json:"id,omitzero"`
	Name  string         `json:"name,omitzero"`
	Input jsontext.Value `json:"input,omitzero"`
	// ToolUseID, Content, Structured and IsError describe its result.
	ToolUseID  string          `json:"toolUseId,omitzero"`
	Content    []SamplingBlock `json:"content,omitzero"`
	Structured jsontext.Value  `json:"structuredContent,omitzero"`
	IsError    bool            `json:"isError,omitzero"`
}

// UnmarshalJSON reads a block, or an array of blocks.
func (b *SamplingBlocks) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() == '[' {
		var all []SamplingBlock
		err := json.Unmarshal(data, &all)
		*b = all
		return err
	}
	var one SamplingBlock
	err := json.Unmarshal(data, &one)
	*b = SamplingBlocks{one}
	return err
}

// ReadCreateMessage reads and checks params. The error is for their sender and names the
// place.
func ReadCreateMessage(params []byte) (*CreateMessageParams, error) {
	p := &CreateMessageParams{}
	if err := json.Unmarshal(params, p); err != nil {
		var at *json.SemanticError
		if errors.As(err, &at) && at.JSONPointer != "" {
			return nil, fault.New(fault.InvalidParams, "params%s has a value of the wrong type", fault.Clip(dotted(at.JSONPointer))).Because(err)
		}
		return nil, fault.New(fault.InvalidParams, "params of sampling/createMessage need messages and maxTokens").Because(err)
	}
	return p, p.check()
}

// dotted writes a pointer in the form of error messages: .messages[0].role.
func dotted(p jsontext.Pointer) string {
	var out strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			out.WriteString("[" + token + "]")
		} else {
			out.WriteString("." + token)
		}
	}
	return out.String()
}

func (p *CreateMessageParams) check() error {
	bad := func(format string, args ...any) error { return fault.New(fault.InvalidParams, format, args...) }
	switch mode := p.ToolChoice.Mode; {
	case len(p.Messages) == 0:
		return bad("params.messages is missing or empty")
	case p.MaxTokens < 1:
		return bad("params.maxTokens must be at least 1")
	case p.Temperature != nil && *p.Temperature < 0:
		return bad("params.temperature must not be negative")
	case mode != "" && mode != "auto" && mode != "required" && mode != "none":
		return bad("params.toolChoice.mode must be auto, required or none")
	case mode == "required" && len(p.Tools) == 0:
		return bad("params.toolChoice.mode is required, but there are no tools")
	}
	for i, m := range p.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return bad("params.messages[%d].role must be user or assistant", i)
		}
		if len(m.Content) == 0 {
			return bad("params.messages[%d].content is empty", i)
		}
		results := 0
		for j, b := range m.Content {
			place := "params.messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(j) + "]"
			if err := b.check(m.Role); err != "" {
				return bad("%s %s", place, err)
			}
			if b.Type == "tool_result" {
				results++
			}
		}
		// Providers have a separate role for results (client/sampling).
		if results > 0 && results < len(m.Content) {
			return bad("params.messages[%d] has tool results, so it must contain nothing else", i)
		}
	}
	for i, t := range p.Tools {
		if t.Name == "" || t.InputSchema.Kind() != '{' {
			return bad("params.tools[%d] needs a name and an inputSchema", i)
		}
	}
	return nil
}

// check returns the error of a block; empty if it is valid.
func (b *SamplingBlock) check(role string) string {
	switch b.Type {
	case "text":
	case "image", "audio":
		if len(b.Data) == 0 || b.MIMEType == "" {
			return "needs data and mimeType"
		}
	case "tool_use":
		if role != "assistant" {
			return "is the use of a tool, which is only allowed for the assistant"
		}
		if b.ID == "" || b.Name == "" || b.Input.Kind() != '{' {
			return "needs id, name and input"
		}
	case "tool_result":
		if role != "user" {
			return "is the result of a tool, which is only allowed for the user"
		}
		if b.ToolUseID == "" {
			return "needs toolUseId"
		}
	default:
		return "has an unknown type; use text, image, audio, tool_use or tool_result"
	}
	return ""
}
