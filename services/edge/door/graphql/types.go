package graphql

import (
	"bytes"
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

// UnmarshalJSON keeps the value unchanged.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = bytes.Clone(b)
	return nil
}

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

// emptyIsNull makes an empty string null.
var emptyIsNull = json.WithUnmarshalers(json.UnmarshalFunc(func(b []byte, to **string) error {
	var s string
	err := json.Unmarshal(b, &s)
	*to = text(s)
	return err
}))

// read reads a value that a service wrote.
func read(v jsontext.Value, to any) error {
	if err := json.Unmarshal(v, to, emptyIsNull); err != nil {
		return failure{fault.New(fault.Internal, "the service wrote something that this door cannot read").Because(err)}
	}
	return nil
}

// as is the output of an operation as a type of the schema, by way of its JSON.
func as[Out, T any](out Out) (*T, error) {
	v, raw := any(out).(jsontext.Value)
	if !raw {
		var err error
		if v, err = json.Marshal(out, json.Deterministic(true)); err != nil {
			return nil, fail(err)
		}
	}
	to := new(T)
	return to, read(v, to)
}

type tool struct {
	Name                 string  `json:"name"`
	Title                *string `json:"title"`
	Description          string  `json:"description"`
	InputSchema          JSON    `json:"input_schema"`
	OutputSchema         *JSON   `json:"output_schema"`
	Annotations          *JSON   `json:"annotations"`
	RequiresUserApproval bool    `json:"requires_user_approval"`
}

// resource is a resource, and its contents if it is read. MIMEType is both mime_type and
// mimeType.
type resource struct {
	URI         string      `json:"uri"`
	Name        *string     `json:"name"`
	Title       *string     `json:"title"`
	Description *string     `json:"description"`
	MIMEType    *string     `json:"mimeType"`
	Contents    []*contents `json:"contents"`
}

type contents struct {
	URI      string  `json:"uri"`
	MIMEType *string `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     *string `json:"blob"`
}

// UnmarshalJSON keeps empty strings: an empty text is a text.
func (c *contents) UnmarshalJSON(b []byte) error {
	type parts contents
	err := json.Unmarshal(b, (*parts)(c))
	if c.MIMEType != nil {
		c.MIMEType = text(*c.MIMEType)
	}
	return err
}

type prompt struct {
	Name        string  `json:"name"`
	Title       *string `json:"title"`
	Description *string `json:"description"`
	Arguments   []*struct {
		Name        string  `json:"name"`
		Description *string `json:"description"`
		Required    bool    `json:"required"`
	} `json:"arguments"`
}

type promptResult struct {
	Description *string `json:"description"`
	Messages    []*struct {
		Role    string   `json:"role"`
		Content *content `json:"content"`
	} `json:"messages"`
}

// content is one part of a result.
type content struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	Data     *string `json:"data"`
	MIMEType *string `json:"mimeType"`
	URI      *string `json:"uri"`
	Name     *string `json:"name"`
	All      JSON    `json:"-"`
}

// UnmarshalJSON keeps the whole, and empty strings.
func (c *content) UnmarshalJSON(b []byte) error {
	type parts content
	c.All = bytes.Clone(b)
	return json.Unmarshal(b, (*parts)(c))
}

type toolResult struct {
	Content           []*content
	StructuredContent *JSON
	IsError           bool
}

func newToolResult(r *api.Result) (*toolResult, error) {
	out := &toolResult{StructuredContent: value(r.StructuredContent), IsError: r.IsError}
	return out, read(r.Content, &out.Content)
}

// toolSlot is the outcome of one call of many.
type toolSlot struct {
	Content           *[]*content `json:"content"`
	StructuredContent *JSON       `json:"structured_content"`
	IsError           bool        `json:"is_error"`
	Error             *string     `json:"error"`
	Reason            *string     `json:"reason"`
	Executed          *string     `json:"executed"`
	Next              *string     `json:"next"`
	RetryAfterMs      *int32      `json:"retry_after_ms"`
	Data              *JSON       `json:"data"`
}

func newToolSlot(r *api.Result, err error) *toolSlot {
	slot := api.NewSlot(r, err, forms.GraphQL)
	slot.RetryAfterMS = min(slot.RetryAfterMS, math.MaxInt32)
	out, err := as[api.Slot, toolSlot](slot)
	if err != nil {
		return newToolSlot(nil, err)
	}
	return out
}

// held is a call that waits for an approval, or whose tool asks.
type held struct {
	Approval    string  `json:"approval"`
	Elicitation string  `json:"elicitation"`
	Principal   string  `json:"principal"`
	Name        string  `json:"name"`
	Title       *string `json:"title"`
	Shown       *string `json:"shown"`
	Parameters  *JSON   `json:"parameters"`
	Requests    *JSON   `json:"requests"`
	Expires     string  `json:"expires"`
}
