package api

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Members of a sampling request and its result that these doors name differently from
// MCP.
var (
	samplingIn = map[string]string{
		"max_tokens": "maxTokens", "system_prompt": "systemPrompt", "stop_sequences": "stopSequences",
		"model_preferences": "modelPreferences", "tool_choice": "toolChoice", "include_context": "includeContext",
	}
	samplingOut = map[string]string{"stopReason": "stop_reason"}
)

// Sample asks the configured model. request is a sampling request with the names of these
// doors or of MCP. The result has role, content, model and stop_reason.
func (s *Server) Sample(ctx context.Context, c Caller, request jsontext.Value) (jsontext.Value, error) {
	params, err := rename(request, samplingIn)
	if err != nil {
		return nil, c.OfBody(mcp.MethodSample, err)
	}
	result, err := s.do(ctx, c, c.Call(mcp.MethodSample, "", params))
	if err != nil {
		return nil, err
	}
	return rename(result, samplingOut)
}

// rename gives members of an object other names.
func rename(object jsontext.Value, names map[string]string) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, fault.New(fault.InvalidParams, "a JSON object is expected").Because(err)
	}
	for from, to := range names {
		v, ok := members[from]
		if !ok {
			continue
		}
		if _, both := members[to]; both {
			return nil, fault.New(fault.InvalidParams, "%s and %s are the same", from, to)
		}
		delete(members, from)
		members[to] = v
	}
	return json.Marshal(members, json.Deterministic(true))
}
