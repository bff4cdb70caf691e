package mcp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Meta is a _meta: a JSON object, or nil. Its keys begin with a domain of their author,
// such as com.example/.
type Meta []byte

// metaLimits bound a Meta. It is part of messages, and clients read 64 levels of those.
var metaLimits = Limits{Bytes: 1 << 20, Depth: 32, Values: 1 << 20, Members: 1 << 20, NumberBytes: 400, StringBytes: 1 << 20}

// MarshalJSON fails if Meta is not a JSON object, has a member twice, is nested deeper than 32
// levels, or is larger than 1 MiB.
func (m Meta) MarshalJSON() ([]byte, error) {
	if v := jsontext.Value(m); v.Kind() != '{' || !v.IsValid() {
		return nil, errors.New("_meta is not a JSON object")
	}
	if err := Valid(m, metaLimits); err != nil {
		return nil, fmt.Errorf("_meta: %v", err) //nolint:errorlint // the author's mistake, not the caller's
	}
	return m, nil
}

// UnmarshalJSON drops a value that is not an object: MCP has no other _meta.
func (m *Meta) UnmarshalJSON(b []byte) error {
	if *m = nil; jsontext.Value(b).Kind() == '{' {
		*m = bytes.Clone(b)
	}
	return nil
}

// Implementation names a client or server (2026-07-28, schema).
type Implementation struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Version     string `json:"version"`
	Description string `json:"description,omitzero"`
	WebsiteURL  string `json:"websiteUrl,omitzero"`
	Icons       []Icon `json:"icons,omitempty"`
}

// Icon is a picture for a tool, prompt, resource or server. Src is an https
// or data URI.
type Icon struct {
	Src      string   `json:"src"`
	MIMEType string   `json:"mimeType,omitzero"`
	Sizes    []string `json:"sizes,omitempty"`
	// Theme is "light", "dark" or empty.
	Theme string `json:"theme,omitzero"`
}

// ToolAnnotations are hints about a tool's behaviour. Clients treat them as untrusted;
// nil means unspecified.
type ToolAnnotations struct {
	Title           string `json:"title,omitzero"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"`
	IdempotentHint  *bool  `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"`
}

// Tool is a tool in the form that clients see.
type Tool struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitzero"`
	Description  string           `json:"description,omitzero"`
	Icons        []Icon           `json:"icons,omitempty"`
	InputSchema  jsontext.Value   `json:"inputSchema"`
	OutputSchema jsontext.Value   `json:"outputSchema,omitzero"`
	Annotations  *ToolAnnotations `json:"annotations,omitzero"`
	Meta         Meta             `json:"_meta,omitzero"`
}

// Annotations say for whom content is meant and how important it is.
type Annotations struct {
	// Audience holds "user", "assistant" or both.
	Audience []string `json:"audience,omitempty"`
	// Priority is from 0, optional, to 1, required.
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is an ISO 8601 time.
	LastModified string `json:"lastModified,omitzero"`
}

// Resource is a resource as resources/list shows it.
type Resource struct {
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Size        *int64       `json:"size,omitzero"`
	Icons       []Icon       `json:"icons,omitempty"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// ResourceTemplate is a set of resources with one RFC 6570 template.
type ResourceTemplate struct {
	URITemplate string       `json:"uriTemplate"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Icons       []Icon       `json:"icons,omitempty"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// Prompt is a prompt as prompts/list shows it.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
	Icons       []Icon           `json:"icons,omitempty"`
	Meta        Meta             `json:"_meta,omitzero"`
}

// PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

// PromptMessage is one message of a prompt or of a sampling request.
type PromptMessage struct {
	// Role is "user" or "assistant".
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// ResourceContents is the result of reading a resource: text, or a blob if Blob is not
// nil.
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte
	Meta     Meta
}

// MarshalJSON writes text or base64, never both.
func (c ResourceContents) MarshalJSON() ([]byte, error) {
	type head struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType,omitzero"`
		Text     *string `json:"text,omitzero"`
		Blob     *string `json:"blob,omitzero"`
		Meta     Meta    `json:"_meta,omitzero"`
	}
	h := head{URI: c.URI, MIMEType: c.MIMEType, Text: &c.Text, Meta: c.Meta}
	if c.Blob != nil {
		b := base64.StdEncoding.EncodeToString(c.Blob)
		h.Text, h.Blob = nil, &b
	}
	return json.Marshal(h)
}

// Content is one item of a tool's result or of a message. Make it with Text,
// Image, Audio, Link, Embed or RawContent.
type Content struct {
	typ         string
	text        string
	data        []byte
	mimeType    string
	resource    *Resource
	contents    *ResourceContents
	Annotations *Annotations
	Meta        Meta
}

// Text is text content.
func Text(s string) Content { return Content{typ: "text", text: s} }

// TextOf returns the text in content, an array of blocks in wire format, with a line for
// each block that has text.
func TextOf(content []byte) string {
	var blocks []struct {
		Text string `json:"text,omitzero"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var all []string
	for _, b := range blocks {
		if b.Text != "" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Image is image content; data are the image's bytes.
func Image(data []byte, mimeType string) Content {
	return Content{typ: "image", data: data, mimeType: mimeType}
}

// Audio is audio content; data are the recording's bytes.
func Audio(data []byte, mimeType string) Content {
	return Content{typ: "audio", data: data, mimeType: mimeType}
}

// Link points at a resource the client may read.
func Link(r Resource) Content { return Content{typ: "resource_link", resource: &r} }

// Embed carries a resource's contents.
func Embed(c ResourceContents) Content { return Content{typ: "resource", contents: &c} }

// RawContent is an item unchanged: a JSON object with a type of MCP, such as one from
// another server.
func RawContent(item []byte) Content { return Content{typ: "raw", data: item} }

// MarshalJSON writes the content item of MCP.
func (c Content) MarshalJSON() ([]byte, error) {
	type item struct {
		Type        string            `json:"type"`
		Text        *string           `json:"text,omitzero"`
		Data        *string           `json:"data,omitzero"`
		MIMEType    string            `json:"mimeType,omitzero"`
		Resource    *ResourceContents `json:"resource,omitzero"`
		Annotations *Annotations      `json:"annotations,omitzero"`
		Meta        Meta              `json:"_meta,omitzero"`
	}
	it := item{Type: c.typ, Annotations: c.Annotations, Meta: c.Meta}
	switch c.typ {
	case "raw":
		var known struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(c.data, &known); err != nil || known.Type == "" {
			return nil, errors.New("raw content must be a JSON object with a type")
		}
		return c.data, nil
	case "text":
		it.Text = &c.text
	case "image", "audio":
		data := base64.StdEncoding.EncodeToString(c.data)
		it.Data, it.MIMEType = &data, c.mimeType
	case "resource":
		it.Resource = c.contents
	case "resource_link":
		type link struct {
			Type string `json:"type"`
			Resource
		}
		l := link{c.typ, *c.resource}
		if c.Annotations != nil {
			l.Annotations = c.Annotations
		}
		if c.Meta != nil {
			l.Meta = c.Meta
		}
		return json.Marshal(l)
	}
	return json.Marshal(it)
}

// CompleteParams are the params of completion/complete.
type CompleteParams struct {
	// Ref is the owner of the argument: "ref/prompt" with Name, or
	// "ref/resource" with the URI of a template.
	Ref struct {
		Type string `json:"type"`
		Name string `json:"name,omitzero"`
		URI  string `json:"uri,omitzero"`
	} `json:"ref"`
	Argument struct {
		Name string `json:"name"`
		// Value is what has been entered so far.
		Value string `json:"value"`
	} `json:"argument"`
	// Context holds the arguments already known.
	Context struct {
		Arguments map[string]string `json:"arguments,omitempty"`
	} `json:"context,omitzero"`
}
