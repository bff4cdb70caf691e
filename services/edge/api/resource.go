package api

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Resources returns the resources after a cursor, as MCP has them.
func (s *Server) Resources(cursor string, limit int) (resources []jsontext.Value, next string, err error) {
	return s.slice(catalogue.Resources, cursor, limit)
}

// FindResource returns what is known of a resource without reading it, an object
// as MCP has it; of one that only a template knows, its URI.
func (s *Server) FindResource(uri string) (jsontext.Value, error) {
	now := s.Catalogue()
	if entry, ok := now.Entry(catalogue.Resources, uri); ok {
		return entry, nil
	}
	if _, ok := now.Resource(uri); ok {
		return json.Marshal(map[string]string{"uri": uri})
	}
	return nil, gateway.UnknownResource(uri)
}

// Updates hears of every update of a resource until it is closed. The error is
// that of FindResource.
func (s *Server) Updates(uri string) (*catalogue.Subscription, error) {
	if _, ok := s.Catalogue().Resource(uri); !ok {
		return nil, gateway.UnknownResource(uri)
	}
	return s.gateway.Catalogue().Subscribe(func(updated string) bool { return updated == uri }), nil
}

// NewResource is what a caller says of a resource to create. Its type may stand
// under either name.
type NewResource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	MIMEType    string `json:"mime_type,omitzero"`
	MIMETypeMCP string `json:"mimeType,omitzero"`
	Content     string `json:"content"`
}

// createTool is the tool that creates resources.
const createTool = "create_resource"

// Create is the call that creates a resource: one of the tool that does.
func (c Caller) Create(r *NewResource) (*gateway.Call, error) {
	mime := r.MIMEType
	if mime == "" {
		mime = r.MIMETypeMCP
	}
	arguments, err := json.Marshal(struct {
		URI         string `json:"uri"`
		Name        string `json:"name"`
		Description string `json:"description,omitzero"`
		MIMEType    string `json:"mime_type,omitzero"`
		Content     string `json:"content"`
	}{r.URI, r.Name, r.Description, mime, r.Content})
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "the resource must be of UTF-8 text").Because(err)
	}
	return c.Call(mcp.MethodToolsCall, createTool, arguments, nil), nil
}

// samplingNames are what MCP calls the members of a sampling request that these
// doors have under other names.
var samplingNames = map[string]string{
	"max_tokens": "maxTokens", "system_prompt": "systemPrompt", "stop_sequences": "stopSequences",
	"include_context": "includeContext", "model_preferences": "modelPreferences", "tool_choice": "toolChoice",
}

// Sample is the call that has a model sampled. params is an object with the
// members of sampling/createMessage, under MCP's names or those of these doors.
func (c Caller) Sample(params jsontext.Value, onFrame gateway.OnFrame) (*gateway.Call, error) {
	var in map[string]jsontext.Value
	if err := json.Unmarshal(params, &in); err != nil || in == nil {
		return nil, fault.New(fault.InvalidParams, "a sampling request is an object with messages").Because(err)
	}
	for here, there := range samplingNames {
		if v, ok := in[here]; ok {
			if _, both := in[there]; both {
				return nil, fault.New(fault.InvalidParams, "%s and %s are the same; give one", here, there)
			}
			delete(in, here)
			in[there] = v
		}
	}
	arguments, err := json.Marshal(in, json.Deterministic(true))
	if err != nil {
		return nil, fault.From(err)
	}
	return c.Call(mcp.MethodSample, "", arguments, onFrame), nil
}
