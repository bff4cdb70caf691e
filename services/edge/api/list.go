package api

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Tool is a tool as these doors show it.
type Tool struct {
	Name                 string         `json:"name"`
	Title                string         `json:"title,omitzero"`
	Description          string         `json:"description"`
	InputSchema          jsontext.Value `json:"input_schema"`
	OutputSchema         jsontext.Value `json:"output_schema,omitzero"`
	Annotations          jsontext.Value `json:"annotations,omitzero"`
	RequiresUserApproval bool           `json:"requires_user_approval"`
	// Service is the tool's service, Version the version of the service's code.
	Service string `json:"service,omitzero"`
	Version string `json:"version,omitzero"`
}

// FindTool returns the tool with a name. The error is a *fault.Error with reason
// UnknownTool, or Unavailable while the bus does not answer.
func (s *Server) FindTool(ctx context.Context, c Caller, name string) (*Tool, error) {
	now, err := s.enter(ctx, c, mcp.MethodToolsList, name)
	if err != nil {
		return nil, err
	}
	entry, ok := now.Entry(catalogue.Tools, name)
	if !ok {
		return nil, s.gateway.Absent(gateway.UnknownTool(name))
	}
	needs, err := s.gateway.Needs(ctx, c.Credentials)
	if err != nil {
		return nil, err
	}
	return tool(now, entry, needs)
}

// tool reads an entry of a list. needs reports whether calls of a tool need approval.
func tool(now *catalogue.Snapshot, entry []byte, needs func(tool string, says bool) bool) (*Tool, error) {
	var in mcp.Tool
	if err := json.Unmarshal(entry, &in, json.RejectUnknownMembers(false)); err != nil {
		return nil, fault.From(err)
	}
	out := &Tool{Name: in.Name, Title: in.Title, Description: in.Description, InputSchema: in.InputSchema, OutputSchema: in.OutputSchema}
	if in.Annotations != nil {
		var err error
		if out.Annotations, err = json.Marshal(in.Annotations); err != nil {
			return nil, err
		}
	}
	if t, ok := now.Tool(in.Name); ok {
		out.Service, out.Version = t.Service, t.Version
		out.RequiresUserApproval = needs(now.ToolName(in.Name), t.Tool.RequiresUserApproval)
	}
	return out, nil
}

// Tools returns a page of the tools.
func (s *Server) Tools(ctx context.Context, c Caller, p Page) (List[*Tool], error) {
	tools := List[*Tool]{Member: "tools"}
	now, page, err := s.page(ctx, catalogue.Tools, c.Call(mcp.MethodToolsList, "", nil), p)
	if err != nil {
		return tools, err
	}
	needs, err := s.gateway.Needs(ctx, c.Credentials)
	if err != nil {
		return tools, err
	}
	entries := page.Entries()
	tools.Next, tools.Entries = page.Next, make([]*Tool, len(entries))
	for i, e := range entries {
		if tools.Entries[i], err = tool(now, e, needs); err != nil {
			return tools, err
		}
	}
	return tools, nil
}

// Revision is a comparable value that stays the same for as long as a caller sees the
// same tools.
func (s *Server) Revision(ctx context.Context, c Caller) (any, error) {
	return s.enter(ctx, c, mcp.MethodToolsList, "")
}

// Prompts returns a page of the prompts, as MCP has them.
func (s *Server) Prompts(ctx context.Context, c Caller, p Page) (List[jsontext.Value], error) {
	return s.list(ctx, catalogue.Prompts, "prompts", c.Call(mcp.MethodPromptsList, "", nil), p)
}

// Resources returns a page of the resources, as MCP has them.
func (s *Server) Resources(ctx context.Context, c Caller, p Page) (List[jsontext.Value], error) {
	return s.list(ctx, catalogue.Resources, "resources", c.Call(mcp.MethodResourcesList, "", nil), p)
}

// FindPrompt returns the prompt with a name, or a *fault.Error with reason UnknownPrompt.
func (s *Server) FindPrompt(ctx context.Context, c Caller, name string) (jsontext.Value, error) {
	return s.gateway.FindPrompt(ctx, c.Call(mcp.MethodPromptsList, name, nil), name)
}

// list returns a page of entries, as MCP has them.
func (s *Server) list(ctx context.Context, kind catalogue.Kind, member string, call *gateway.Call, p Page) (List[jsontext.Value], error) {
	out := List[jsontext.Value]{Member: member}
	_, page, err := s.page(ctx, kind, call, p)
	if err == nil {
		out.Entries, out.Next = page.Entries(), page.Next
	}
	return out, err
}

// page is a page of a list of the catalogue.
func (s *Server) page(ctx context.Context, kind catalogue.Kind, call *gateway.Call, p Page) (*catalogue.Snapshot, *catalogue.Page, error) {
	var at []byte
	if p.Cursor != "" {
		at = []byte(p.Cursor)
	}
	return s.gateway.List(ctx, kind, call, at, cmp.Or(p.Limit, catalogue.Everything))
}

// PromptCall is the input of a prompt.
type PromptCall struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
}

// FillPrompt returns the messages of a prompt, as MCP has them.
func (s *Server) FillPrompt(ctx context.Context, c Caller, in PromptCall) (jsontext.Value, error) {
	return s.do(ctx, c, c.Call(mcp.MethodPromptsGet, in.Name, in.Arguments))
}
