package graphql

import (
	stdjson "encoding/json"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// JSON is the scalar JSON: any value.
type JSON jsontext.Value

// ImplementsGraphQLType implements decode.Unmarshaler.
func (JSON) ImplementsGraphQLType(name string) bool { return name == "JSON" }

// UnmarshalGraphQL takes a literal or the value of a variable.
func (j *JSON) UnmarshalGraphQL(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("not a JSON value")
	}
	*j = JSON(b)
	return nil
}

// MarshalJSON writes the value unchanged.
func (j JSON) MarshalJSON() ([]byte, error) { return j, nil }

var _ stdjson.Marshaler = JSON(nil) // with which the library writes scalars

// value is a JSON value that may be absent.
func value(v jsontext.Value) *JSON {
	if v == nil {
		return nil
	}
	j := JSON(v)
	return &j
}

func (j *JSON) bytes() []byte {
	if j == nil || jsontext.Value(*j).Kind() == 'n' {
		return nil
	}
	return *j
}

// object reads an argument that must be an object.
func (j *JSON) object(name string) ([]byte, error) {
	b := j.bytes()
	if b == nil {
		return nil, nil
	}
	// A literal has not been checked against the limits of a message yet.
	if err := mcp.Valid(b, mcp.DefaultLimits()); err != nil {
		return nil, err
	}
	if jsontext.Value(b).Kind() != '{' {
		return nil, fault.New(fault.InvalidParams, "%s must be an object", name)
	}
	return b, nil
}

// text is a string that becomes null if it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type tool struct {
	Name, Description         string
	Title                     *string
	InputSchema               JSON
	OutputSchema, Annotations *JSON
	RequiresUserApproval      bool
}

func newTool(t *api.Tool) *tool {
	return &tool{
		Name: t.Name, Description: t.Description, Title: text(t.Title), InputSchema: JSON(t.InputSchema),
		OutputSchema: value(t.OutputSchema), Annotations: value(t.Annotations), RequiresUserApproval: t.RequiresUserApproval,
	}
}

// resource is a resource without its contents.
type resource struct {
	URI                      string
	Name, Title, Description *string
	mime                     *string
}

// MimeType resolves both mime_type and mimeType.
func (r *resource) MimeType() *string { return r.mime }

func newResource(entry jsontext.Value) (*resource, error) {
	var in mcp.Resource
	if err := read(entry, &in); err != nil {
		return nil, err
	}
	return shownResource(&in), nil
}

func shownResource(in *mcp.Resource) *resource {
	return &resource{URI: in.URI, Name: text(in.Name), Title: text(in.Title), Description: text(in.Description), mime: text(in.MIMEType)}
}

// readResource is a resource with its contents.
type readResource struct {
	resource
	Contents []*contents
}

type contents struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType,omitzero"`
	Text *string `json:"text,omitzero"`
	Blob *string `json:"blob,omitzero"`
}

// MimeType resolves both mime_type and mimeType.
func (c *contents) MimeType() *string { return text(c.MIME) }

type prompt struct {
	Name               string
	Title, Description *string
	Arguments          []*promptArgument
}

type promptArgument struct {
	Name        string
	Description *string
	Required    bool
}

func newPrompt(entry jsontext.Value) (*prompt, error) {
	var in mcp.Prompt
	if err := read(entry, &in); err != nil {
		return nil, err
	}
	out := &prompt{Name: in.Name, Title: text(in.Title), Description: text(in.Description), Arguments: make([]*promptArgument, len(in.Arguments))}
	for i, a := range in.Arguments {
		out.Arguments[i] = &promptArgument{a.Name, text(a.Description), a.Required}
	}
	return out, nil
}

type promptResult struct {
	Description *string
	Messages    []*message
}

type message struct {
	Role    string
	Content *content
}

// content is one part of a result.
type content struct {
	Type             string
	Text, Data, mime *string
	URI, Name        *string
	All              JSON
}

// MimeType resolves both mime_type and mimeType.
func (c *content) MimeType() *string { return c.mime }

func newContent(v jsontext.Value) (*content, error) {
	var in struct {
		Type string  `json:"type"`
		Text *string `json:"text,omitzero"`
		Data *string `json:"data,omitzero"`
		MIME *string `json:"mimeType,omitzero"`
		URI  *string `json:"uri,omitzero"`
		Name *string `json:"name,omitzero"`
	}
	if err := read(v, &in); err != nil {
		return nil, err
	}
	return &content{Type: in.Type, Text: in.Text, Data: in.Data, mime: in.MIME, URI: in.URI, Name: in.Name, All: JSON(v)}, nil
}

func newContents(list jsontext.Value) ([]*content, error) {
	var parts []jsontext.Value
	if err := read(list, &parts); err != nil {
		return nil, err
	}
	out := make([]*content, len(parts))
	for i, p := range parts {
		var err error
		if out[i], err = newContent(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type toolResult struct {
	Content           []*content
	StructuredContent *JSON
	IsError           bool
}

func newToolResult(result jsontext.Value) (*toolResult, error) {
	r, err := api.ReadResult(result)
	if err != nil {
		return nil, fail(err)
	}
	parts, err := newContents(r.Content)
	if err != nil {
		return nil, err
	}
	return &toolResult{parts, value(r.StructuredContent), r.IsError}, nil
}

// toolSlot is the outcome of one call of many.
type toolSlot struct {
	Content                 *[]*content
	StructuredContent       *JSON
	IsError                 bool
	Error, Reason, Executed *string
	Next                    *string
	RetryAfterMs            *int32
	Data                    *JSON
}

func newToolSlot(result jsontext.Value, err error) *toolSlot {
	if err == nil {
		var r *toolResult
		if r, err = newToolResult(result); err == nil {
			return &toolSlot{Content: &r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
		}
	}
	s := api.NewSlot(nil, err, forms.GraphQL)
	out := &toolSlot{IsError: true, Error: text(s.Error), Reason: text(string(s.Reason)), Executed: text(string(s.Executed)), Next: text(s.Next), Data: value(s.Data)}
	if s.RetryAfterMS > 0 {
		ms := int32(min(s.RetryAfterMS, math.MaxInt32))
		out.RetryAfterMs = &ms
	}
	return out
}

// read reads a value that a service wrote.
func read(v jsontext.Value, to any) error {
	if err := json.Unmarshal(v, to); err != nil {
		return failure{fault.New(fault.Internal, "the service wrote something that this door cannot read").Because(err)}
	}
	return nil
}
